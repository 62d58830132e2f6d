//! Decides which requests are allowed, and adds the headers that restrict what a browser may do with a page.
//!
//! * **Host**: a foreign web site can make its own name resolve to this machine (DNS rebinding), and its scripts could then
//!   read the pages of this server. Such a request has the foreign name in its Host header, and is refused. IP addresses cannot
//!   be rebound, so they are accepted; a server that listens on a loopback address accepts only loopback addresses.
//! * **Token**: if the user sets a token, or the server does not listen on a loopback address, each client must send the token, as
//!   a Bearer token or once in the query. The server moves it from the query to a cookie. Scripts cannot read this cookie, and
//!   browsers do not send it with requests that come from other sites.
//! * **Methods**: only GET and HEAD, because the server is read-only.

use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    LOCATION, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{body::Body, http::uri::Authority, middleware::Next};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fsarena_core::setting_text::setting;
use std::{net::IpAddr, sync::Arc};

/// The smallest number of characters of a token that the user sets. `server` checks it: 16 characters of base64 are 96
/// bits.
pub const MIN_TOKEN_CHARS: usize = 16;

/// The Content-Security-Policy of the pages: they may load only files of this server.
const CONTENT_SECURITY_POLICY_OF_PAGES: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The rules of one server for requests.
pub struct Guard {
    /// The host names that a Host header may have, besides IP addresses and `localhost`.
    host_names: Vec<String>,
    /// Whether the server listens on a loopback address, which only this machine can reach.
    is_loopback: bool,
    /// The token that clients must send; `None` if none is required.
    token: Option<String>,
    /// The name of the cookie with the token.
    cookie_name: String,
}

impl Guard {
    /// The rules of a server that listens on this address. If `token` is `None`, creates a random one unless the address is a
    /// loopback address.
    pub fn new(address: IpAddr, port: u16, host_names: Vec<String>, token: Option<String>) -> Guard {
        let is_loopback = address.is_loopback();
        let token = token.or_else(|| (!is_loopback).then(random_token));
        // Browsers share cookies between all ports of a machine. The name has the port, so that two servers do not overwrite
        // each other's cookie.
        Guard { host_names, is_loopback, token, cookie_name: format!("fsarena-{port}") }
    }

    /// The first host name by which clients reach the machine; `None` if the user gave none.
    pub fn first_host_name(&self) -> Option<&str> {
        self.host_names.first().map(String::as_str)
    }

    /// The token that clients must send; `None` if none is required.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether a Host header is valid for this server.
    fn accepts_host(&self, host: &str) -> bool {
        // An IPv6 address without brackets is not a valid authority. It has no port, so use the whole text.
        let authority = host.parse::<Authority>().ok().filter(|authority| !authority.as_str().contains('@'));
        let host = authority.as_ref().map_or(host, Authority::host);
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => !self.is_loopback || address.is_loopback(),
            Err(_) => {
                let is_host = |name: &str| name.eq_ignore_ascii_case(host);
                is_host("localhost") || self.host_names.iter().any(|name| is_host(name))
            }
        }
    }

    /// Whether a request has the token, as a Bearer token (RFC 6750) or in this server's cookie (RFC 6265).
    fn has_token(&self, token: &str, headers: &HeaderMap) -> bool {
        let values_of = |name: HeaderName| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        for credentials in values_of(AUTHORIZATION) {
            if let Some((scheme, sent)) = credentials.split_once(' ')
                && scheme.eq_ignore_ascii_case("Bearer")
                && is_right_token(sent.trim(), token)
            {
                return true;
            }
        }
        let mut cookies = values_of(COOKIE).flat_map(|value| value.split(';'));
        cookies.any(|cookie| {
            let (name, sent) = cookie.trim().split_once('=').unwrap_or_default();
            name == self.cookie_name && is_right_token(sent, token)
        })
    }

    /// The response to a request that is not allowed, or the redirect that moves the token from the query to a cookie. `None` if
    /// the request is allowed.
    fn refuse_or_redirect(&self, request: &Request) -> Option<Response> {
        let host_headers = request.headers().get_all(HOST);
        // `accepts_host` refuses "?".
        let mut requested_hosts =
            host_headers.iter().map(|host| host.to_str().unwrap_or("?")).chain(request.uri().host());
        if host_headers.iter().next().is_none() {
            return Some(refusal(StatusCode::BAD_REQUEST, "The request names no host."));
        }
        if !requested_hosts.all(|host| self.accepts_host(host)) {
            let flag = setting("allow_host", "");
            let message = format!("This server does not accept requests for that host name; {flag} adds one.");
            return Some(refusal(StatusCode::MISDIRECTED_REQUEST, &message));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "This server can only be read.");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        let token = self.token.as_deref()?;
        if self.has_token(token, request.headers()) {
            return None;
        }
        Some(match check_and_remove_token(request.uri(), token) {
            Some(target) => self.redirect_with_cookie(token, &target),
            None => {
                let message = "This server requires its token: open the address that it printed, or send the token as a Bearer token.";
                let mut response = refusal(StatusCode::UNAUTHORIZED, message);
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
        })
    }

    /// A redirect that sets the cookie with the token, and leads to the same page without the token in its address.
    fn redirect_with_cookie(&self, token: &str, target: &str) -> Response {
        // `server` accepts only tokens that a cookie can have (RFC 6265, section 4.1.1).
        let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name);
        match (HeaderValue::try_from(cookie), HeaderValue::try_from(target)) {
            (Ok(cookie), Ok(target)) => {
                (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, target)]).into_response()
            }
            _ => refusal(StatusCode::BAD_REQUEST, "The address without the token is not valid in HTTP."),
        }
    }
}

/// A random token of 192 bits, as 32 characters of base64.
fn random_token() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>())
}

/// Whether a client sent the right token. Compares hashes, so that the time does not depend on how many characters are right.
fn is_right_token(sent: &str, token: &str) -> bool {
    blake3::hash(sent.as_bytes()) == blake3::hash(token.as_bytes())
}

/// Checks the token in the query of a request. Returns path and query without it; `None` if the query does not have the
/// right token. A token has only characters that need no percent-encoding, so it is compared as it is in the address.
fn check_and_remove_token(uri: &Uri, token: &str) -> Option<String> {
    let mut other_pairs = vec![];
    let mut has_right_token = false;
    for pair in uri.query()?.split('&') {
        match pair.strip_prefix("token=") {
            Some(sent) => has_right_token |= is_right_token(sent, token),
            None => other_pairs.push(pair),
        }
    }
    // A redirect to "//host/…" would lead to another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let url = if other_pairs.is_empty() { path } else { format!("{path}?{}", other_pairs.join("&")) };
    has_right_token.then_some(url)
}

/// A response of plain text that refuses a request.
fn refusal(status: StatusCode, message: &str) -> Response {
    (status, format!("{message}\n")).into_response()
}

/// Middleware that refuses forbidden requests, and adds the security headers to every response.
pub async fn guard_request(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refuse_or_redirect(&request) {
        Some(response) => response,
        None => next.run(request).await,
    };
    let security_headers: [(HeaderName, &str); 6] = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in security_headers {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CONTENT_SECURITY_POLICY_OF_PAGES));
    response
}

/// A response with a page and its Content-Security-Policy, which also forbids other sites to embed the page in a frame.
pub fn page_with_policy(page: impl Into<Body>, policy: &str) -> Response {
    let policy = HeaderValue::try_from(format!("{policy}; frame-ancestors 'none'"));
    let policy = policy.unwrap_or(HeaderValue::from_static(CONTENT_SECURITY_POLICY_OF_PAGES));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, html), (CONTENT_SECURITY_POLICY, policy)], page.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::{AUTHORIZATION, COOKIE};

    fn guard(address: &str, token: Option<&str>) -> Guard {
        Guard::new(address.parse().unwrap(), 8017, vec!["bench.lan".into()], token.map(String::from))
    }

    fn request(uri: &str, headers: &[(HeaderName, &str)]) -> Request {
        let mut request = axum::http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn hosts_that_a_foreign_site_can_claim_are_refused() {
        let loopback = guard("127.0.0.1", None);
        for host in ["localhost", "LocalHost:8017", "127.0.0.1:9", "[::1]:8017", "::1", "127.8.8.8", "bench.lan:80"] {
            assert!(loopback.accepts_host(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "192.0.2.1:8017",
            "",
            "127.0.0.1.nip.io",
            "[::2]",
            "a:b:c",
            "localhost@evil.example",
            "evil.example@localhost",
        ] {
            assert!(!loopback.accepts_host(host), "{host}");
        }
        let exposed = guard("0.0.0.0", None);
        assert!(
            exposed.accepts_host("192.0.2.1:8017")
                && exposed.accepts_host("[2001:db8::1]")
                && !exposed.accepts_host("evil.example")
        );
    }

    #[test]
    fn all_hosts_of_a_request_are_checked() {
        let loopback = guard("127.0.0.1", None);
        let status =
            |request: Request| loopback.refuse_or_redirect(&request).map(|response| response.status().as_u16());
        assert_eq!(status(request("/", &[(HOST, "localhost")])), None);
        assert_eq!(status(request("/", &[])), Some(400));
        assert_eq!(status(request("/", &[(HOST, "localhost"), (HOST, "evil.example")])), Some(421));
        assert_eq!(status(request("http://evil.example/", &[(HOST, "localhost")])), Some(421));
        let mut post = request("/", &[(HOST, "localhost")]);
        *post.method_mut() = Method::POST;
        assert_eq!(status(post), Some(405));
    }

    #[test]
    fn beyond_loopback_a_token_is_created_and_required() {
        assert!(guard("127.0.0.1", None).token().is_none());
        let [first, second] = [(); 2].map(|()| guard("0.0.0.0", None).token().unwrap().to_string());
        assert!(first.len() == 32 && first != second);

        let exposed = guard("0.0.0.0", Some("a-token-of-mine-0"));
        let status = |uri: &str, header: Option<(HeaderName, &str)>| {
            let headers: Vec<_> = [(HOST, "192.0.2.1")].into_iter().chain(header).collect();
            exposed.refuse_or_redirect(&request(uri, &headers)).map(|response| response.status().as_u16())
        };
        assert_eq!(status("/", None), Some(401));
        assert_eq!(status("/", Some((AUTHORIZATION, "Bearer a-token-of-mine-0"))), None);
        assert_eq!(status("/", Some((AUTHORIZATION, "Bearer a-token-of-mine-1"))), Some(401));
        assert_eq!(status("/", Some((AUTHORIZATION, "Basic a-token-of-mine-0"))), Some(401));
        assert_eq!(status("/", Some((COOKIE, "x=1; fsarena-8017=a-token-of-mine-0"))), None);
        assert_eq!(status("/", Some((COOKIE, "fsarena-8018=a-token-of-mine-0"))), Some(401));
        assert_eq!(status("/?token=wrong", None), Some(401));
    }

    #[test]
    fn a_token_in_the_query_moves_to_a_cookie() {
        let exposed = guard("0.0.0.0", Some("a-token-of-mine-0"));
        let request = request("//evil/compare?run=a&token=a-token-of-mine-0&run=b", &[(HOST, "192.0.2.1")]);
        let response = exposed.refuse_or_redirect(&request).unwrap();
        assert_eq!(response.status(), 303);
        assert_eq!(response.headers()[LOCATION], "/evil/compare?run=a&run=b");
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    }
}
