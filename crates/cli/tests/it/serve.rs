//! `fsarena serve` over loopback: its pages, and whom it refuses.

use crate::common::{Place, root, stored};
use crate::common::{gate::wait_until, web::Web};
use fsarena_core::event::Event;
use fsarena_store::{RunDir, Writer};
use rustix::process::Signal;
use std::{io::Write, os::unix::fs::symlink, path::Path, process::Stdio};

/// A place with two stored runs and a server.
fn served(args: &[&str]) -> (Place, [String; 2], Web) {
    let place = Place::new();
    let ids = [(); 2].map(|()| stored::run(&place.runs()).id());
    let web = Web::start(&place, args);
    (place, ids, web)
}

#[test]
fn the_list_is_searched_sorted_and_leads_to_the_report() {
    let (place, [one, two], web) = served(&[]);
    let list = web.page("/");
    for words in [&one, &two, "example", "complete", "bench, Linux 6.18.0", "2 runs", "id=\"runs\"", "id=\"search\""] {
        assert!(list.contains(words), "{words} in {list}");
    }
    let rows = |query: &str| web.page(query).matches("<tr data-run=").count();
    assert_eq!([rows("/?search=xfs+BENCH"), rows("/?search=journal"), rows("/?search=zfs")], [2, 2, 0]);
    assert_eq!(rows(&format!("/?search={one}")), 1);
    let order = |query: &str| web.page(query).find(&one) < web.page(query).find(&two);
    assert!(order("/?sort=run&order=up") != order("/?sort=run&order=down"));
    // The very report of the command line.
    let (printed, _) = place.expect(0, &["report", &one, "--format", "html"]);
    let report = web.get(&format!("/runs/{one}"));
    assert!(report.body == printed, "the report of the page is that of the command line");
    assert!(
        report.head.contains("script-src 'sha256-") && report.head.contains("frame-ancestors 'none'"),
        "{}",
        report.head
    );
    let rows: serde_json::Value = serde_json::from_str(&web.page("/runs.json?sort=run&order=up")).unwrap();
    assert_eq!(rows["runs"][0]["variants"], serde_json::json!(["ext2", "ext3", "xfs"]));
    assert_eq!(rows["databases_opened"], 2, "each once");
}

#[test]
fn the_list_of_runs_shows_answers_when_they_are_ready() {
    let (_place, [one, _], web) = served(&[]);
    let answered = || {
        let rows: serde_json::Value = serde_json::from_str(&web.page(&format!("/runs.json?search={one}"))).unwrap();
        rows["runs"][0]["answer"].as_str().map(String::from)
    };
    wait_until("the list has an answer", || answered().is_some());
    let answer = answered().unwrap();
    assert!(answer.contains("ext2"), "{answer}");
    assert!(web.page("/").contains(&answer));
}

#[test]
fn runs_are_compared_as_the_command_line_does() {
    let (place, [one, two], web) = served(&[]);
    let page = web.page(&format!("/compare?run={one}&run={two}"));
    let (printed, _) = place.expect(0, &["compare", &one, &two, "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    for task in printed["tasks"].as_array().unwrap() {
        assert!(page.contains(task["task"].as_str().unwrap()), "{task} in {page}");
    }
    let three = stored::run(&place.runs()).id();
    let page = web.page(&format!("/compare?run={one}&run={two}&run={three}&metric=synced"));
    assert!(
        page.contains(&format!("run {two} compared with run {one}, by synced"))
            && page.contains(&format!("run {three} compared with"))
    );
    let (printed, _) = place.expect(0, &["compare", &one, &two, &three, "--format", "json"]);
    assert!(printed.contains("comparisons"), "{printed}");
    assert_eq!(web.get(&format!("/compare?run={one}")).status, 400);
    assert_eq!(web.get(&format!("/compare?run={one}&run=none")).status, 404);
    assert_eq!(web.get(&format!("/compare?run={one}&run={two}&metric=none")).status, 422);
}

#[test]
fn a_comparison_has_its_answer_a_picture_and_the_script_of_reports() {
    let (place, [one, two], web) = served(&[]);
    let page = web.page(&format!("/compare?run={one}&run={two}"));
    let (printed, _) = place.expect(0, &["compare", &one, &two, "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let (file, _) = place.expect(0, &["compare", &one, &two, "--format", "html"]);
    for page in [&page, &file] {
        let answer = page.find(printed["answer"][0].as_str().unwrap()).expect("the answer");
        assert!(answer < page.find("<svg").expect("a picture"), "{page}");
        assert_eq!(page.matches("id=\"method\"").count(), 1, "{page}");
    }
    assert!(page.contains("src=\"/assets/report.js\"") && file.contains("Content-Security-Policy"));
    assert!(web.get("/assets/report.js").body.contains("Copy as CSV"));
}

#[test]
fn a_run_is_put_beside_published_figures() {
    let (place, [one, two], web) = served(&[]);
    let page = web.page(&format!("/compare?run={one}&run=published:piszcz-II"));
    let (printed, _) = place.expect(0, &["compare", &one, "published:piszcz-II", "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert!(page.contains(printed["answer"][0].as_str().unwrap()) && page.contains("best as published"), "{page}");
    // The page says which others there are.
    assert!(page.contains("<option>published:piszcz-I</option>"), "{page}");
    let status = |query: &str| web.get(&format!("/compare?{query}")).status;
    assert_eq!(status(&format!("run={one}&run=published:none")), 404);
    assert_eq!(status(&format!("run=published:piszcz-II&run={one}")), 400);
    assert_eq!(status(&format!("run={one}&run={two}&run=published:piszcz-II")), 400);
    assert_eq!(status(&format!("run={one}&run=published:piszcz-II&metric=iops")), 422);
    let hostile = web.get(&format!("/compare?run={one}&run=published:%3Cscript%3E&metric=%3Cscript%3E"));
    assert!(hostile.status == 404 && !hostile.body.contains("<script>"), "{hostile:?}");
    // It is a name and never a path.
    assert_eq!(status(&format!("run={one}&run=published:../../secret")), 404);
}

#[test]
fn a_history_has_a_picture_and_says_what_changed() {
    let (place, [one, two], web) = served(&[]);
    let page = web.page("/history?study=example&variant=xfs&metric=elapsed");
    let link = format!("<a href=\"/runs/{one}\">{one}</a>");
    for words in [&link, &two, "<svg", "No change was found over 2 runs", "xfs over ext2"] {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(web.page("/history?study=example&variant=xfs&reference=none").contains("elapsed of xfs"));
    assert!(web.page("/history").contains("example"));
    let (printed, _) = place.expect(0, &["history", "example", "--variant", "xfs", "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&printed["reference"], &printed["runs"][1]["rounds"]), (&"ext2".into(), &8.into()), "{printed}");
    assert!(place.expect(0, &["history"]).0.contains("No change was found over 2 runs"));
    assert_eq!(web.get("/history?metric=none").status, 422);
    assert!(web.page("/history?study=none&variant=xfs").contains("No run of none"));
}

/// A run that another process begins, and who writes it.
fn begun(runs: &Path) -> (RunDir, Writer) {
    let like = stored::run(runs);
    let run = RunDir::create(runs, &like.plan().unwrap(), "0.1.0").unwrap();
    std::fs::remove_dir_all(like.path()).unwrap();
    let writer = Writer::open(&run, &fsarena_core::host::Host::default(), &stored::readings()).unwrap();
    (run, writer)
}

#[test]
fn a_run_is_watched_and_whoever_comes_back_hears_the_rest() {
    let place = Place::new();
    let (run, mut writer) = begun(&place.runs());
    let web = Web::start(&place, &[]);
    let id = run.id();
    assert!(web.page("/").contains("data-state=\"running\""));
    assert!(web.page(&format!("/runs/{id}/live")).contains("id=\"live\""));
    assert!(web.page(&format!("/runs/{id}")).contains("not complete: running"), "a report of nothing yet");

    let mut events = web.events(&id, None);
    assert_eq!(events.next().unwrap().event, "state");
    stored::begin(&mut writer, &run);
    stored::round(&mut writer, &run, 0);
    let told = events.find(|message| message.event == "state" && message.json()["done"] == 1).unwrap();
    drop(events);

    // Meanwhile the connection is lost.
    stored::round(&mut writer, &run, 1);
    let mut events = web.events(&id, Some(&told.id));
    let missed = events.find(|message| message.event == "told").unwrap();
    assert!(missed.json()["event"]["run_event"] == "round_started", "{missed:?}");
    assert_eq!(missed.json()["event"]["round"], 1);
    let state = events.find(|message| message.event == "state" && message.json()["done"] == 2).unwrap().json();
    assert_eq!((&state["variants"][0]["variant"], &state["planned"]), (&"ext2".into(), &8.into()));
    assert!(state["variants"][2]["ratio_to_best"]["value"].as_f64().unwrap() > 1.0, "{state}");

    writer.apply(&Event::RunFinished { why: "that was enough".into(), complete: true }).unwrap();
    drop(writer);
    let end = events.last().unwrap();
    assert!(end.event == "end" && end.json()["ended"]["why"] == "that was enough", "{end:?}");
    // Who comes later hears how it ended, and the report is there.
    assert_eq!(web.events(&id, None).last().unwrap().json()["done"], 2);
    assert!(web.page(&format!("/runs/{id}")).contains("Touch 313 files"));
}

#[test]
fn a_real_run_of_another_process_is_watched_to_its_end() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("rounds = 1", "rounds = 2");
    std::fs::create_dir(place.runs()).unwrap();
    let web = Web::start(&place, &[]);
    let mut run = place.fsarena(&["run", "./plan.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut id = None;
    wait_until("the run is in the list", || {
        let rows: serde_json::Value = serde_json::from_str(&web.page("/runs.json")).unwrap();
        id = rows["runs"][0]["run"].as_str().map(String::from);
        id.is_some()
    });
    let id = id.unwrap();
    let end = web.events(&id, None).last().unwrap();
    assert_eq!((end.event.as_str(), &end.json()["done"]), ("end", &2.into()), "{end:?}");
    assert_eq!(end.json()["ended"]["complete"], true);
    assert!(run.wait().unwrap().success());
    assert!(web.page(&format!("/runs/{id}")).contains("Does it work?"));
    drop(web);
    place.assert_clean();
}

#[test]
fn hostile_text_and_broken_databases_do_no_harm() {
    let (place, [one, _], web) = served(&[]);
    let hostile = "<script>alert(1)</script>";
    let evil = stored::hostile(&place.runs(), hostile);
    let copy = |name: &str| {
        let to = place.runs().join(name);
        std::fs::create_dir(&to).unwrap();
        for file in ["run.db", "plan.toml"] {
            std::fs::copy(place.runs().join(&one).join(file), to.join(file)).unwrap();
        }
        to
    };
    let truncated = copy("truncated");
    std::fs::File::options().write(true).open(truncated.join("run.db")).unwrap().set_len(9000).unwrap();
    let no_plan = copy("no-plan");
    std::fs::write(no_plan.join("plan.toml"), "not a plan").unwrap();
    let foreign = place.runs().join("foreign <b>");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("run.db"), "something else").unwrap();

    let list = web.page("/");
    assert!(!list.contains("<script>") && list.contains("&#60;script&#62;"), "{list}");
    assert_eq!(list.matches("data-state=\"cannot be read\"").count(), 3, "{list}");
    assert!(list.contains("not an SQLite database") && list.contains("not a resolved plan"), "{list}");
    for path in [
        format!("/runs/{}/live", evil.id()),
        format!("/compare?run={one}&run={}", evil.id()),
        format!("/history?study={hostile}&variant={hostile}&metric=elapsed"),
        format!("/?search={hostile}"),
        format!("/compare?run={hostile}&run=b"),
    ] {
        let page = web.get(&path.replace('<', "%3C").replace('>', "%3E")).body;
        assert!(page.contains("</html>") && !page.contains("<script>"), "{path}: {page}");
    }
    // The report has one script, and the policy knows its hash.
    let report = web.page(&format!("/runs/{}", evil.id()));
    assert!(!report.contains(hostile), "{report}");
    for id in ["truncated", "no-plan", "foreign%20%3Cb%3E"] {
        assert_eq!(web.get(&format!("/runs/{id}")).status, 422, "{id}");
    }
    assert_eq!(web.get(&format!("/runs/{one}")).status, 200);
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let (place, [one, _], web) = served(&[]);
    let elsewhere = stored::run(&place.dir.join("elsewhere"));
    symlink(elsewhere.path(), place.runs().join("link")).unwrap();
    std::fs::write(place.dir.join("secret"), "a secret").unwrap();
    let secret = elsewhere.id();
    let listed = web.page("/");
    assert!(listed.contains("leads out of the folder") && !listed.contains(&secret), "{listed}");
    assert_eq!(web.get("/runs/link").status, 403);
    assert_eq!(web.get("/runs/link/events").status, 403);
    for path in [
        format!("/runs/../elsewhere/{secret}"),
        format!("/runs/..%2felsewhere%2f{secret}"),
        format!("/runs/%2e%2e%2felsewhere%2f{secret}"),
        format!("/runs/..%5celsewhere%5c{secret}"),
        format!("/runs/{one}%2f..%2f..%2fsecret"),
        format!("/runs/{one}%00"),
        format!("//runs/../../{secret}"),
        "/runs/%2e%2e".into(),
        "/runs/.".into(),
        "/runs/%c0%ae%c0%ae/secret".into(),
        "/assets/..%2f..%2fsecret".into(),
        "/assets/%2e%2e/%2e%2e/secret".into(),
        "/../../../../etc/passwd".into(),
        format!("/runs/{}", elsewhere.path().display()),
        format!("/compare?run={one}&run=../elsewhere/{secret}"),
        format!("/compare?run={one}&run={}", elsewhere.path().display()),
    ] {
        let answer = web.get(&path);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("a secret") && !answer.body.contains("root:"), "{path}");
    }
}

#[test]
fn it_answers_whom_it_should_and_only_to_be_read() {
    let (place, [one, _], mut web) = served(&[]);
    let host = |host: &str| web.raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status;
    assert_eq!([host("localhost:1"), host("127.0.0.1"), host("[::1]:9")], [200; 3]);
    assert_eq!([host("evil.example"), host("localhost.evil.example"), host("192.0.2.7")], [421; 3]);
    assert_eq!(web.raw("GET / HTTP/1.0\r\n\r\n").status, 400);
    let absolute = "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(web.raw(absolute).status, 421);
    let before = std::fs::read(place.runs().join(&one).join("run.db")).unwrap();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let request = format!(
            "{method} /runs/{one} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = web.raw(&request);
        assert!(answer.status == 405 && answer.head.contains("allow: GET, HEAD"), "{method}: {answer:?}");
    }
    assert_eq!(std::fs::read(place.runs().join(&one).join("run.db")).unwrap(), before);
    let head = web.raw("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(head.status == 200 && head.body.is_empty());
    for words in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "x-frame-options: DENY",
    ] {
        assert!(head.head.contains(words), "{words} in {}", head.head);
        assert!(web.get("/none").head.contains(words), "{words}");
    }
    assert!(!head.head.contains("unsafe-inline"));
    assert_eq!(web.end(Signal::INT).code(), Some(0), "Ctrl-C is how it ends");
}

#[test]
fn beyond_this_machine_it_asks_for_its_token() {
    let (place, _, web) = served(&["--bind", "0.0.0.0"]);
    let token = web.url.split_once("/?token=").expect("the token is printed").1.to_string();
    assert!(token.len() >= 32, "{token}");
    assert_eq!(web.get("/").status, 401);
    assert_eq!(web.get_with("/", &format!("Authorization: Bearer {token}\r\n")).status, 200);
    assert_eq!(web.get_with("/", &format!("Authorization: Bearer {token}x\r\n")).status, 401);
    assert_eq!(web.get("/assets/style.css").status, 401);
    let kept = web.get(&format!("/?search=x&token={token}"));
    assert!(kept.status == 303 && kept.head.contains("location: /?search=x\r\n"), "{kept:?}");
    assert!(kept.head.contains("HttpOnly") && kept.head.contains("SameSite=Strict"), "{kept:?}");
    let cookie = format!("fsarena-{}={token}", web.address.port());
    assert_eq!(web.get_with("/", &format!("Cookie: {cookie}\r\n")).status, 200);
    // DNS rebinding: the server refuses a foreign host name that resolves to its address, even with the cookie.
    let foreign = format!("GET / HTTP/1.1\r\nHost: evil.example\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    assert_eq!(web.raw(&foreign).status, 421);
    let own = Web::start(&place, &["--token", "a-token-of-my-own"]);
    assert_eq!(own.get("/").status, 401, "a token that is given counts on loopback too");
    assert!(place.expect(2, &["serve", "--token", "short"]).1.contains("at least 16"));
    assert!(place.expect(2, &["serve", "--token", "long enough & yet not for a URL"]).1.contains("the character ' '"));
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let (place, _, web) = served(&[]);
    let port = web.address.port().to_string();
    let (_, said) = place.expect(6, &["serve", "--port", &port]);
    assert!(said.contains(&port) && said.contains("another program listens there"), "{said}");
    let (_, said) = place.expect(2, &["serve", "nowhere"]);
    assert!(said.contains("nowhere") && said.contains("fsarena serve DIR"), "{said}");
    assert!(place.expect(2, &["serve", "plan.toml"]).1.contains("not a folder"));
    let (_, said) = place.expect(2, &["serve", "--bind", "192.0.2.1"]);
    assert!(said.contains("an address of this machine"), "{said}");
}

#[test]
fn two_hundred_clients_at_once() {
    let (_place, [one, two], web) = served(&[]);
    let paths = ["/".to_string(), format!("/runs/{one}"), format!("/compare?run={one}&run={two}"), "/history".into()];
    let bodies = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..200)
            .map(|at| {
                let (web, path) = (&web, &paths[at % paths.len()]);
                scope.spawn(move || web.page(path))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(bodies.iter().all(|body| body.contains("</html>")));
    assert!(bodies.chunks(4).all(|four| four[1] == bodies[1]), "all see the same report");
    // Clients that send an incomplete request and then stay silent do not block others.
    let mut silent: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(web.address).unwrap()).collect();
    silent.iter_mut().for_each(|stream| stream.write_all(b"GET / HT").unwrap());
    assert_eq!(web.get("/").status, 200);
}
