//! `fsarena serve` over loopback: its pages, and the requests that it refuses.

use crate::common::{Sandbox, runs_as_root, stored};
use crate::common::{gate::wait_until, web::WebServer};
use fsarena_core::event::Event;
use fsarena_store::{RunDir, Writer};
use rustix::process::Signal;
use std::{io::Write, os::unix::fs::symlink, path::Path, process::Stdio};

/// Makes a sandbox with two stored runs, and starts a server for them. Returns the ids of the runs too.
fn start_with_two_runs(args: &[&str]) -> (Sandbox, [String; 2], WebServer) {
    let sandbox = Sandbox::new();
    let ids = [(); 2].map(|()| stored::store_run(&sandbox.runs_dir()).id());
    let web = WebServer::start(&sandbox, args);
    (sandbox, ids, web)
}

#[test]
fn the_list_is_searched_sorted_and_leads_to_the_report() {
    let (sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let list = web.get_page("/");
    for words in
        [&first_id, &second_id, "example", "complete", "bench, Linux 6.18.0", "2 runs", "id=\"runs\"", "id=\"search\""]
    {
        assert!(list.contains(words), "{words} in {list}");
    }
    let rows = |query: &str| web.get_page(query).matches("<tr data-run=").count();
    assert_eq!([rows("/?search=xfs+BENCH"), rows("/?search=journal"), rows("/?search=zfs")], [2, 2, 0]);
    assert_eq!(rows(&format!("/?search={first_id}")), 1);
    let order = |query: &str| web.get_page(query).find(&first_id) < web.get_page(query).find(&second_id);
    assert!(order("/?sort=run&order=up") != order("/?sort=run&order=down"));
    // The very report of the command line.
    let (printed, _) = sandbox.expect(0, &["report", &first_id, "--format", "html"]);
    let report = web.get(&format!("/runs/{first_id}"));
    assert!(report.body == printed, "the report of the page is that of the command line");
    assert!(
        report.head.contains("script-src 'sha256-") && report.head.contains("frame-ancestors 'none'"),
        "{}",
        report.head
    );
    let rows: serde_json::Value = serde_json::from_str(&web.get_page("/runs.json?sort=run&order=up")).unwrap();
    assert_eq!(rows["runs"][0]["variants"], serde_json::json!(["ext2", "ext3", "xfs"]));
    assert_eq!(rows["databases_opened"], 2, "each once");
}

#[test]
fn the_list_of_runs_shows_answers_when_they_are_ready() {
    let (_sandbox, [first_id, _], web) = start_with_two_runs(&[]);
    let answered = || {
        let rows: serde_json::Value =
            serde_json::from_str(&web.get_page(&format!("/runs.json?search={first_id}"))).unwrap();
        rows["runs"][0]["answer"].as_str().map(String::from)
    };
    wait_until("the list has an answer", || answered().is_some());
    let answer = answered().unwrap();
    assert!(answer.contains("ext2"), "{answer}");
    assert!(web.get_page("/").contains(&answer));
}

#[test]
fn runs_are_compared_as_the_command_line_does() {
    let (sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let page = web.get_page(&format!("/compare?run={first_id}&run={second_id}"));
    let (printed, _) = sandbox.expect(0, &["compare", &first_id, &second_id, "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    for task in printed["tasks"].as_array().unwrap() {
        assert!(page.contains(task["task"].as_str().unwrap()), "{task} in {page}");
    }
    let third_id = stored::store_run(&sandbox.runs_dir()).id();
    let page = web.get_page(&format!("/compare?run={first_id}&run={second_id}&run={third_id}&metric=synced"));
    assert!(
        page.contains(&format!("run {second_id} compared with run {first_id}, by synced"))
            && page.contains(&format!("run {third_id} compared with"))
    );
    let (printed, _) = sandbox.expect(0, &["compare", &first_id, &second_id, &third_id, "--format", "json"]);
    assert!(printed.contains("comparisons"), "{printed}");
    assert_eq!(web.get(&format!("/compare?run={first_id}")).status, 400);
    assert_eq!(web.get(&format!("/compare?run={first_id}&run=none")).status, 404);
    assert_eq!(web.get(&format!("/compare?run={first_id}&run={second_id}&metric=none")).status, 422);
}

#[test]
fn a_comparison_has_its_answer_a_picture_and_the_script_of_reports() {
    let (sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let page = web.get_page(&format!("/compare?run={first_id}&run={second_id}"));
    let (printed, _) = sandbox.expect(0, &["compare", &first_id, &second_id, "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let (file, _) = sandbox.expect(0, &["compare", &first_id, &second_id, "--format", "html"]);
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
    let (sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let page = web.get_page(&format!("/compare?run={first_id}&run=published:piszcz-II"));
    let (printed, _) = sandbox.expect(0, &["compare", &first_id, "published:piszcz-II", "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert!(page.contains(printed["answer"][0].as_str().unwrap()) && page.contains("best as published"), "{page}");
    // The page lists the others.
    assert!(page.contains("<option>published:piszcz-I</option>"), "{page}");
    let status = |query: &str| web.get(&format!("/compare?{query}")).status;
    assert_eq!(status(&format!("run={first_id}&run=published:none")), 404);
    assert_eq!(status(&format!("run=published:piszcz-II&run={first_id}")), 400);
    assert_eq!(status(&format!("run={first_id}&run={second_id}&run=published:piszcz-II")), 400);
    assert_eq!(status(&format!("run={first_id}&run=published:piszcz-II&metric=iops")), 422);
    let hostile = web.get(&format!("/compare?run={first_id}&run=published:%3Cscript%3E&metric=%3Cscript%3E"));
    assert!(hostile.status == 404 && !hostile.body.contains("<script>"), "{hostile:?}");
    // It is never used as a path.
    assert_eq!(status(&format!("run={first_id}&run=published:../../secret")), 404);
}

#[test]
fn a_history_has_a_chart_and_lists_changes() {
    let (sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let page = web.get_page("/history?study=example&variant=xfs&metric=elapsed");
    let link = format!("<a href=\"/runs/{first_id}\">{first_id}</a>");
    for words in [&link, &second_id, "<svg", "No change was found over 2 runs", "xfs over ext2"] {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(web.get_page("/history?study=example&variant=xfs&reference=none").contains("elapsed of xfs"));
    assert!(web.get_page("/history").contains("example"));
    let (printed, _) = sandbox.expect(0, &["history", "example", "--variant", "xfs", "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&printed["reference"], &printed["runs"][1]["rounds"]), (&"ext2".into(), &8.into()), "{printed}");
    assert!(sandbox.expect(0, &["history"]).0.contains("No change was found over 2 runs"));
    assert_eq!(web.get("/history?metric=none").status, 422);
    assert!(web.get_page("/history?study=none&variant=xfs").contains("No run of none"));
}

/// Creates an empty run, as a running process does. Returns its writer too.
fn create_run(runs_dir: &Path) -> (RunDir, Writer) {
    let model = stored::store_run(runs_dir);
    let run = RunDir::create(runs_dir, &model.plan().unwrap(), "0.1.0").unwrap();
    std::fs::remove_dir_all(model.path()).unwrap();
    let writer = Writer::open(&run, &fsarena_core::host::Host::default(), &stored::readings()).unwrap();
    (run, writer)
}

#[test]
fn a_watched_run_sends_events_and_after_a_reconnection_the_missed_ones() {
    let sandbox = Sandbox::new();
    let (run, mut writer) = create_run(&sandbox.runs_dir());
    let web = WebServer::start(&sandbox, &[]);
    let id = run.id();
    assert!(web.get_page("/").contains("data-state=\"running\""));
    assert!(web.get_page(&format!("/runs/{id}/live")).contains("id=\"live\""));
    assert!(web.get_page(&format!("/runs/{id}")).contains("not complete: running"), "a report of nothing yet");

    let mut events = web.events(&id, None);
    assert_eq!(events.next().unwrap().event, "state");
    stored::begin_run(&mut writer, &run);
    stored::record_round(&mut writer, &run, 0);
    let last_state = events.find(|message| message.event == "state" && message.json()["done"] == 1).unwrap();
    drop(events);

    // A round ends while there is no connection.
    stored::record_round(&mut writer, &run, 1);
    let mut events = web.events(&id, Some(&last_state.id));
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
    // A later client gets the end too, and the report exists.
    assert_eq!(web.events(&id, None).last().unwrap().json()["done"], 2);
    assert!(web.get_page(&format!("/runs/{id}")).contains("Touch 313 files"));
}

#[test]
fn a_real_run_of_another_process_is_watched_to_its_end() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("rounds = 1", "rounds = 2");
    std::fs::create_dir(sandbox.runs_dir()).unwrap();
    let web = WebServer::start(&sandbox, &[]);
    let mut run = sandbox.fsarena(&["run", "./plan.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut id = None;
    wait_until("the run is in the list", || {
        let rows: serde_json::Value = serde_json::from_str(&web.get_page("/runs.json")).unwrap();
        id = rows["runs"][0]["run"].as_str().map(String::from);
        id.is_some()
    });
    let id = id.unwrap();
    let end = web.events(&id, None).last().unwrap();
    assert_eq!((end.event.as_str(), &end.json()["done"]), ("end", &2.into()), "{end:?}");
    assert_eq!(end.json()["ended"]["complete"], true);
    assert!(run.wait().unwrap().success());
    assert!(web.get_page(&format!("/runs/{id}")).contains("Does it work?"));
    drop(web);
    sandbox.assert_clean();
}

#[test]
fn hostile_text_and_broken_databases_do_no_harm() {
    let (sandbox, [first_id, _], web) = start_with_two_runs(&[]);
    let hostile = "<script>alert(1)</script>";
    let hostile_run = stored::store_run_of_text(&sandbox.runs_dir(), hostile);
    let copy_run = |name: &str| {
        let copy = sandbox.runs_dir().join(name);
        std::fs::create_dir(&copy).unwrap();
        for file in ["run.db", "plan.toml"] {
            std::fs::copy(sandbox.runs_dir().join(&first_id).join(file), copy.join(file)).unwrap();
        }
        copy
    };
    let truncated = copy_run("truncated");
    std::fs::File::options().write(true).open(truncated.join("run.db")).unwrap().set_len(9000).unwrap();
    let no_plan = copy_run("no-plan");
    std::fs::write(no_plan.join("plan.toml"), "not a plan").unwrap();
    let foreign = sandbox.runs_dir().join("foreign <b>");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("run.db"), "something else").unwrap();

    let list = web.get_page("/");
    assert!(!list.contains("<script>") && list.contains("&#60;script&#62;"), "{list}");
    assert_eq!(list.matches("data-state=\"cannot be read\"").count(), 3, "{list}");
    assert!(list.contains("not an SQLite database") && list.contains("not a resolved plan"), "{list}");
    for path in [
        format!("/runs/{}/live", hostile_run.id()),
        format!("/compare?run={first_id}&run={}", hostile_run.id()),
        format!("/history?study={hostile}&variant={hostile}&metric=elapsed"),
        format!("/?search={hostile}"),
        format!("/compare?run={hostile}&run=b"),
    ] {
        let page = web.get(&path.replace('<', "%3C").replace('>', "%3E")).body;
        assert!(page.contains("</html>") && !page.contains("<script>"), "{path}: {page}");
    }
    // The report has one script, and the policy knows its hash.
    let report = web.get_page(&format!("/runs/{}", hostile_run.id()));
    assert!(!report.contains(hostile), "{report}");
    for id in ["truncated", "no-plan", "foreign%20%3Cb%3E"] {
        assert_eq!(web.get(&format!("/runs/{id}")).status, 422, "{id}");
    }
    assert_eq!(web.get(&format!("/runs/{first_id}")).status, 200);
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let (sandbox, [first_id, _], web) = start_with_two_runs(&[]);
    let elsewhere = stored::store_run(&sandbox.dir.join("elsewhere"));
    symlink(elsewhere.path(), sandbox.runs_dir().join("link")).unwrap();
    std::fs::write(sandbox.dir.join("secret"), "a secret").unwrap();
    let secret = elsewhere.id();
    let listed = web.get_page("/");
    assert!(listed.contains("leads out of the folder") && !listed.contains(&secret), "{listed}");
    assert_eq!(web.get("/runs/link").status, 403);
    assert_eq!(web.get("/runs/link/events").status, 403);
    for path in [
        format!("/runs/../elsewhere/{secret}"),
        format!("/runs/..%2felsewhere%2f{secret}"),
        format!("/runs/%2e%2e%2felsewhere%2f{secret}"),
        format!("/runs/..%5celsewhere%5c{secret}"),
        format!("/runs/{first_id}%2f..%2f..%2fsecret"),
        format!("/runs/{first_id}%00"),
        format!("//runs/../../{secret}"),
        "/runs/%2e%2e".into(),
        "/runs/.".into(),
        "/runs/%c0%ae%c0%ae/secret".into(),
        "/assets/..%2f..%2fsecret".into(),
        "/assets/%2e%2e/%2e%2e/secret".into(),
        "/../../../../etc/passwd".into(),
        format!("/runs/{}", elsewhere.path().display()),
        format!("/compare?run={first_id}&run=../elsewhere/{secret}"),
        format!("/compare?run={first_id}&run={}", elsewhere.path().display()),
    ] {
        let response = web.get(&path);
        assert!((400..500).contains(&response.status), "{path}: {response:?}");
        assert!(!response.body.contains("a secret") && !response.body.contains("root:"), "{path}");
    }
}

#[test]
fn only_local_hosts_and_reading_methods_are_answered() {
    let (sandbox, [first_id, _], mut web) = start_with_two_runs(&[]);
    let status_for_host =
        |host: &str| web.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status;
    assert_eq!([status_for_host("localhost:1"), status_for_host("127.0.0.1"), status_for_host("[::1]:9")], [200; 3]);
    assert_eq!(
        [status_for_host("evil.example"), status_for_host("localhost.evil.example"), status_for_host("192.0.2.7")],
        [421; 3]
    );
    assert_eq!(web.send("GET / HTTP/1.0\r\n\r\n").status, 400);
    let absolute_request = "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(web.send(absolute_request).status, 421);
    let database_before = std::fs::read(sandbox.runs_dir().join(&first_id).join("run.db")).unwrap();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let request = format!(
            "{method} /runs/{first_id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let response = web.send(&request);
        assert!(response.status == 405 && response.head.contains("allow: GET, HEAD"), "{method}: {response:?}");
    }
    assert_eq!(std::fs::read(sandbox.runs_dir().join(&first_id).join("run.db")).unwrap(), database_before);
    let head = web.send("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
    assert_eq!(web.end_by(Signal::INT).code(), Some(0), "Ctrl-C is how it ends");
}

#[test]
fn a_server_that_other_machines_reach_requires_a_token() {
    let (sandbox, _, web) = start_with_two_runs(&["--bind", "0.0.0.0"]);
    let token = web.url.split_once("/?token=").expect("the token is printed").1.to_string();
    assert!(token.len() >= 32, "{token}");
    assert_eq!(web.get("/").status, 401);
    assert_eq!(web.get_with("/", &format!("Authorization: Bearer {token}\r\n")).status, 200);
    assert_eq!(web.get_with("/", &format!("Authorization: Bearer {token}x\r\n")).status, 401);
    assert_eq!(web.get("/assets/style.css").status, 401);
    let redirect = web.get(&format!("/?search=x&token={token}"));
    assert!(redirect.status == 303 && redirect.head.contains("location: /?search=x\r\n"), "{redirect:?}");
    assert!(redirect.head.contains("HttpOnly") && redirect.head.contains("SameSite=Strict"), "{redirect:?}");
    let cookie = format!("fsarena-{}={token}", web.address.port());
    assert_eq!(web.get_with("/", &format!("Cookie: {cookie}\r\n")).status, 200);
    // DNS rebinding: the server refuses a foreign host name that resolves to its address, even with the cookie.
    let foreign_request =
        format!("GET / HTTP/1.1\r\nHost: evil.example\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    assert_eq!(web.send(&foreign_request).status, 421);
    let web_with_token = WebServer::start(&sandbox, &["--token", "a-token-of-my-own"]);
    assert_eq!(web_with_token.get("/").status, 401, "a token of the command line is required on loopback too");
    assert!(sandbox.expect(2, &["serve", "--token", "short"]).1.contains("at least 16"));
    assert!(
        sandbox.expect(2, &["serve", "--token", "long enough & yet not for a URL"]).1.contains("the character ' '")
    );
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let (sandbox, _, web) = start_with_two_runs(&[]);
    let port = web.address.port().to_string();
    let (_, stderr) = sandbox.expect(6, &["serve", "--port", &port]);
    assert!(stderr.contains(&port) && stderr.contains("another program listens there"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["serve", "nowhere"]);
    assert!(stderr.contains("nowhere") && stderr.contains("fsarena serve DIR"), "{stderr}");
    assert!(sandbox.expect(2, &["serve", "plan.toml"]).1.contains("not a folder"));
    let (_, stderr) = sandbox.expect(2, &["serve", "--bind", "192.0.2.1"]);
    assert!(stderr.contains("an address of this machine"), "{stderr}");
}

#[test]
fn two_hundred_simultaneous_clients_are_answered() {
    let (_sandbox, [first_id, second_id], web) = start_with_two_runs(&[]);
    let paths = [
        "/".to_string(),
        format!("/runs/{first_id}"),
        format!("/compare?run={first_id}&run={second_id}"),
        "/history".into(),
    ];
    let bodies = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..200)
            .map(|index| {
                let (web, path) = (&web, &paths[index % paths.len()]);
                scope.spawn(move || web.get_page(path))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(bodies.iter().all(|body| body.contains("</html>")));
    assert!(bodies.chunks(4).all(|four| four[1] == bodies[1]), "all see the same report");
    // Clients that send an incomplete request and then stay silent do not block others.
    let mut silent_clients: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(web.address).unwrap()).collect();
    silent_clients.iter_mut().for_each(|stream| stream.write_all(b"GET / HT").unwrap());
    assert_eq!(web.get("/").status, 200);
}
