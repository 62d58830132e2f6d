//! Tests that plans resolve as documented, and that invalid plans give the documented errors.

use fsarena_core::average::Average;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::plan::resolve::{Overrides, Vocabulary, resolve};
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_core::setting::{SettingDef, SettingDefault, SettingKind, WorkloadDef};
use fsarena_core::{factor::BUILT_IN, matrix, plan::file::PlanFile};

static TASKS: WorkloadDef = WorkloadDef {
    id: "coreutils",
    help: "",
    metrics: &["elapsed"],
    settings: &[
        SettingDef {
            id: "driver",
            kind: SettingKind::Choice(&["commands", "native"]),
            default: SettingDefault::Text("commands"),
            help: "",
        },
        SettingDef {
            id: "copies",
            kind: SettingKind::Int { min: 1, max: 100 },
            default: SettingDefault::Int(10),
            help: "",
        },
    ],
};

/// Another workload, which shares one setting with the first.
static NATIVE: WorkloadDef = WorkloadDef { id: "native", metrics: &[], help: "", settings: &[TASKS.settings[1]] };

fn vocabulary() -> Vocabulary {
    let sets = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    Vocabulary {
        filesystems: vec![("ext4".into(), sets(&["default", "noatime"])), ("xfs".into(), sets(&["default"]))],
        available_filesystems: sets(&["ext4", "xfs"]),
        factors: BUILT_IN.to_vec(),
        workloads: vec![&TASKS, &NATIVE],
        metrics: sets(&["elapsed", "synced"]),
        list_tasks: |_| {
            let params = |bs: &str| [("bs".to_string(), bs.to_string())].into();
            let tasks = [("untar", Default::default()), ("rnd", params("4096")), ("rnd", params("8192"))];
            let task = |(name, params): (&str, _)| TaskInfo {
                id: TaskId { name: name.into(), params },
                title: name.into(),
                number: None,
                in_totals: true,
            };
            tasks.map(task).into()
        },
        default_rounds: |plan| 6 + matrix::expand(plan).len() as u32,
    }
}

fn resolve_text(text: &str, overrides: &Overrides) -> Result<Plan, String> {
    let parsed = PlanFile::parse("plan.toml", text.as_bytes()).map_err(|e| e.to_string())?;
    resolve(&parsed, overrides, &vocabulary()).map_err(|e| e.to_string())
}

const MINIMAL: &str = "name = \"mine\"\n[[workload]]\nuse = \"coreutils\"\n";

/// A plan with these further lines.
fn plan_with(lines: &str) -> String {
    format!("name = \"mine\"\n{lines}\n[[workload]]\nuse = \"coreutils\"\n")
}

#[test]
fn sizes_of_devices_and_of_dirty_pages_are_read_as_those_of_flags() {
    let plan =
        resolve_text(&plan_with("[device]\nsize = \"3G\"\n[idle]\ndirty = \"0\""), &Overrides::default()).unwrap();
    assert_eq!(plan.device.size.unwrap().as_u64(), 3 << 30);
    assert_eq!(plan.idle.dirty.as_u64(), 0);
}

#[test]
fn settings_that_a_plan_leaves_out_have_defaults() {
    let plan = resolve_text(MINIMAL, &Overrides { fresh_seed: 42, ..Overrides::default() }).unwrap();
    assert_eq!(plan.seed, 42);
    assert_eq!(plan.factors["fs"], ["ext4", "xfs"]);
    // The default number of rounds is the number that the first answer requires.
    assert_eq!(plan.stop.rounds, 8);
    let one = Overrides { factors: vec![("fs".into(), vec!["ext4".into()])], ..Default::default() };
    assert_eq!(resolve_text(MINIMAL, &one).unwrap().stop.rounds, 7);
    assert_eq!(plan.workloads[0].settings.text("driver"), "commands");
    assert_eq!(plan.workloads[0].settings.int("copies"), 10);
}

#[test]
fn keys_of_version_0_1_are_unknown() {
    for (text, key) in [("[settle]\ntimeout = \"3s\"", "settle"), ("[stop]\nblocks = 3", "blocks")] {
        let error = resolve_text(&plan_with(text), &Overrides::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("Unknown key `{key}`")), "{error}");
    }
}

#[test]
fn the_command_line_overrides_the_plan() {
    let overrides = Overrides {
        rounds: Some(3),
        factors: vec![("fs".into(), vec!["xfs".into()])],
        settings: vec![("driver".into(), "native".into())],
        ..Overrides::default()
    };
    let plan = resolve_text(&plan_with("[stop]\nrounds = 20\nbudget = \"1m\""), &overrides).unwrap();
    assert_eq!((plan.stop.rounds, plan.stop.budget_s), (3, None));
    assert_eq!(plan.factors["fs"], ["xfs"]);
    assert_eq!(plan.workloads[0].settings.text("driver"), "native");
}

#[test]
fn a_scale_has_its_own_stopping_rule() {
    let text = plan_with("scale = \"tiny\"\n[stop]\nrounds = 20\n[scales.tiny]\nrounds = 2\nbudget = \"90s\"");
    let plan = resolve_text(&text, &Overrides::default()).unwrap();
    assert_eq!((plan.stop.rounds, plan.stop.budget_s), (2, Some(90.0)));
}

#[test]
fn the_budget_of_a_guest_that_counts_instructions_allows_eight_rounds() {
    let text = plan_with("[stop]\nbudget = \"90s\"");
    let backing = Some(Backing::Guest(GuestPlan::of(Emulator::Exact)));
    let overrides = Overrides { backing, ..Overrides::default() };
    assert_eq!(resolve_text(&text, &overrides).unwrap().stop.budget_s, Some(300.0));
    let explicit = Overrides { budget_s: Some(20.0), ..overrides.clone() };
    let plan = resolve_text(&text, &explicit).unwrap();
    assert_eq!(plan.stop.budget_s, Some(20.0));
    // The stored plan keeps the budget that the user set.
    assert_eq!(resolve_text(&toml::to_string(&plan).unwrap(), &overrides).unwrap().stop.budget_s, Some(20.0));
}

/// The names of a plan's variants.
fn names(plan: &Plan) -> Vec<String> {
    matrix::expand(plan).into_iter().map(|variant| variant.name).collect()
}

#[test]
fn levels_of_a_plan_stand_alone_beside_its_variants() {
    let text = plan_with("[factors]\nfs = \"ext4\"\n[vary]\nmount = [\"noatime\", \"sync\"]\nfs = \"xfs\"");
    let plan = resolve_text(&text, &Overrides::default()).unwrap();
    assert_eq!(names(&plan), ["ext4", "xfs", "ext4/noatime", "ext4/sync"]);
    // The command line replaces those of its factor.
    let overrides = Overrides { vary: vec![("mount".into(), vec!["ro".into()])], ..Overrides::default() };
    assert_eq!(names(&resolve_text(&text, &overrides).unwrap()), ["ext4", "xfs", "ext4/ro"]);
    // Named variants have them too, and a stored plan is not varied again.
    let named = plan_with("[[variant]]\nname = \"a\"\nfs = \"ext4\"\n[[variant]]\nname = \"b\"\nfs = \"xfs\"");
    let plan = resolve_text(&named, &overrides).unwrap();
    assert_eq!(names(&plan), ["a", "a/ro", "b", "b/ro"]);
    let again = resolve_text(&toml::to_string(&plan).unwrap(), &Overrides::default()).unwrap();
    assert_eq!(names(&again), names(&plan));
    let error = resolve_text(&plan_with("[vary]\nfs = \"zfs\""), &Overrides::default()).unwrap_err();
    assert!(error.starts_with("plan.toml, line 3, column 6: Unknown filesystem `zfs`"), "{error}");
}

#[test]
fn named_variants_take_the_available_filesystems() {
    let text = plan_with("[[variant]]\nname = \"a\"\nmount = \"noatime\"\n[[variant]]\nname = \"b\"");
    let overrides = Overrides { factors: vec![("fs".into(), vec!["available".into()])], ..Overrides::default() };
    assert_eq!(names(&resolve_text(&text, &overrides).unwrap()), ["a/ext4", "a/xfs", "b/ext4", "b/xfs"]);
}

#[test]
fn directories_drop_the_factors_that_make_a_filesystem() {
    let overrides = Overrides {
        backing: Some(Backing::Dir),
        factors: vec![("dir".into(), vec!["/home".into(), "/srv".into()])],
        ..Overrides::default()
    };
    let plan = resolve_text(&plan_with("[factors]\nfs = \"ext4\""), &overrides).unwrap();
    assert_eq!((plan.factors.len(), plan.omitted.len()), (1, 0));
    assert_eq!(plan.factors["dir"], ["/home", "/srv"]);
    let plan = resolve_text(&plan_with("[factors]\n\"set.copies\" = [1, 2]"), &overrides).unwrap();
    assert_eq!(plan.factors.len(), 1);
    assert_eq!(plan.omitted, ["not varied in existing directories: set.copies"]);
}

#[test]
fn errors_have_line_column_and_a_suggestion() {
    let cases: &[(&str, &str)] = &[
        ("rounds = 3", "plan.toml, line 1, column 1: Unknown key `rounds`."),
        ("name = 3", "plan.toml, line 1, column 8: wrong type: integer `3`, expected a string"),
        ("name = \"a/b\"\n[[workload]]\nuse = \"coreutils\"", "plan.toml, line 1, column 8: write a name"),
        (
            &plan_with("[factors]\nfs = \"etx4\""),
            "plan.toml, line 3, column 6: Unknown filesystem `etx4`. Did you mean `ext4`?",
        ),
        (&plan_with("[factors]\nfs = [\"xfs\", \"xfs\"]"), "plan.toml, line 3, column 6: level `xfs` is given twice"),
        (
            &plan_with("[factors]\nfsx = \"xfs\""),
            "plan.toml, line 3, column 1: Unknown factor `fsx`. Did you mean `fs`?",
        ),
        (
            &plan_with("[factors]\noptions = \"nope\""),
            "plan.toml, line 3, column 11: Unknown option set `nope`. Available:",
        ),
        (
            &plan_with("[factors]\n\"set.copies\" = \"1.5\""),
            "plan.toml, line 3, column 16: `copies` accepts a whole number from 1 to 100, not `1.5`",
        ),
        (&plan_with("[stop]\nrounds = 0"), "plan.toml, line 3, column 10: a run has at least one round"),
        (&plan_with("[stop]\nrounds = -1"), "plan.toml, line 3, column 10: invalid value"),
        (&plan_with("[stop]\nbudget = \"soon\""), "plan.toml, line 3, column 10: cannot read the time `soon`"),
        (&plan_with("[device]\nsize = \"big\""), "plan.toml, line 3, column 8: cannot read the size `big`"),
        (&plan_with("[idle]\nio_pressure_percent = 300.0"), "plan.toml, line 3, column 23: a percentage of time"),
        (
            &plan_with("scale = \"huge\""),
            "plan.toml, line 2, column 9: Unknown value `huge`. Available: paper, quick, tiny",
        ),
        ("name = \"mine\"", "plan.toml: the plan has no [[workload]]"),
        (
            "name = \"mine\"\n[[workload]]\ndriver = \"native\"",
            "plan.toml, line 3, column 1: this [[workload]] lacks its name",
        ),
        (
            "name = \"mine\"\n[[workload]]\nuse = \"coretils\"",
            "plan.toml, line 3, column 7: Unknown workload `coretils`. Did you mean `coreutils`?",
        ),
        (
            &format!("{MINIMAL}drvier = \"native\""),
            "plan.toml, line 4, column 1: Unknown setting `drvier` of workload coreutils. Did you mean `driver`?",
        ),
        (
            &format!("{MINIMAL}driver = \"fast\""),
            "plan.toml, line 4, column 10: `driver` accepts one of commands, native",
        ),
        (
            &format!("{MINIMAL}copies = 0"),
            "plan.toml, line 4, column 10: `copies` accepts a whole number from 1 to 100",
        ),
        (&format!("{MINIMAL}copies = 1979-05-27"), "plan.toml, line 4, column 10: `copies` accepts a whole number"),
        (
            "[[variant]]\nfs = \"ext4\"\n[[variant]]\nfs = \"ext4\"\n[[workload]]\nuse = \"coreutils\"",
            "plan.toml, line 1, column 1: missing key `name`",
        ),
    ];
    for (text, expected) in cases {
        let error = resolve_text(text, &Overrides::default()).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}\n error: {error}\n expected: {expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn errors_name_the_flag() {
    let error = |overrides: Overrides| resolve_text(MINIMAL, &overrides).unwrap_err();
    let set = |id: &str, value: &str| Overrides { settings: vec![(id.into(), value.into())], ..Default::default() };
    assert_eq!(error(set("copies", "many")), "set: `copies` accepts a whole number from 1 to 100, not `many`.");
    assert_eq!(
        error(set("copie", "1")),
        "set: Unknown setting `copie` of workload coreutils. Did you mean `copies`? Available: driver, copies"
    );
    let fs = Overrides { factors: vec![("fs".into(), vec!["zfs".into()])], ..Default::default() };
    assert!(error(fs).starts_with("fs: Unknown filesystem `zfs`"));
}

#[test]
fn the_workload_flag_replaces_the_only_workload() {
    let overrides = |name: &str| Overrides { workload: Some(name.into()), ..Default::default() };
    let plan = resolve_text(&format!("{MINIMAL}copies = 3\n"), &overrides("native")).unwrap();
    assert_eq!((plan.workloads.len(), plan.workloads[0].name.as_str()), (1, "native"));
    assert_eq!(plan.workloads[0].settings.int("copies"), 3);
    // Settings that the other workload does not have are omitted and named. If the user sets one, it is an error.
    let lacks = format!("{MINIMAL}driver = \"native\"\n[scales.quick.set]\ndriver = \"native\"\n");
    let plan = resolve_text(&lacks, &overrides("native")).unwrap();
    assert_eq!(plan.omitted, ["ignored settings of the plan, which native lacks: driver"]);
    let set = Overrides { settings: vec![("driver".into(), "native".into())], ..overrides("native") };
    assert!(resolve_text(&lacks, &set).unwrap_err().starts_with("set: Unknown setting `driver`"));
    assert_eq!(
        resolve_text(MINIMAL, &overrides("nativ")).unwrap_err(),
        "workload: Unknown workload `nativ`. Did you mean `native`? Available: coreutils, native"
    );
    let two = format!("{MINIMAL}[[workload]]\nuse = \"native\"\n");
    assert_eq!(
        resolve_text(&two, &overrides("native")).unwrap_err(),
        "workload: replaces the only workload of a plan, and this plan has 2"
    );
}

#[test]
fn plans_that_are_not_utf8_or_too_large_are_errors() {
    let error = PlanFile::parse("plan.toml", b"name = \"x\"\ntitle = \"\xff\"").unwrap_err().to_string();
    assert_eq!(error, "plan.toml, line 2, column 10: a plan is UTF-8 text, and this byte is not");
    let error = PlanFile::parse("plan.toml", &vec![b'#'; 10 << 20]).unwrap_err().to_string();
    assert_eq!(error, "plan.toml, line 1, column 1: too large for a plan; the limit is 1 MiB");
}

#[test]
fn claims_of_plan_and_flag_end_the_run_unless_rounds_are_set() {
    let text = plan_with("claims = [\"untar.elapsed: xfs < ext4\"]\n[stop]\nrounds = 3\nmargin = \"2%\"");
    let claim = || "geomean.synced: best is ext4".to_string();
    let plan = resolve_text(&text, &Overrides { claims: vec![claim()], ..Default::default() }).unwrap();
    let claims: Vec<String> = plan.claims.iter().map(|claim| claim.to_string()).collect();
    assert_eq!(claims, ["untar.elapsed: xfs < ext4", "geomean.synced: best is ext4"]);
    assert_eq!((plan.stop.rounds, plan.stop.ends_when_decided, plan.stop.margin), (400, true, Some(0.02)));
    let fixed = resolve_text(&text, &Overrides { rounds: Some(9), ..Default::default() }).unwrap();
    assert_eq!((fixed.stop.rounds, fixed.stop.ends_when_decided), (9, false));
    let most = Overrides { max_rounds: Some(30), margin: Some(0.1), ..Default::default() };
    let stop = resolve_text(&text, &most).unwrap().stop;
    assert_eq!((stop.rounds, stop.ends_when_decided, stop.margin), (30, true, Some(0.1)));
    assert_eq!(resolve_text(MINIMAL, &Overrides { max_rounds: Some(2), ..Default::default() }).unwrap().stop.rounds, 2);
}

#[test]
fn a_stored_margin_is_not_rounded() {
    for margin in ["7%", "0.33333333%", "0.0000001%", "10000%"] {
        let text = plan_with(&format!("[stop]\nmargin = \"{margin}\""));
        let plan = resolve_text(&text, &Overrides::default()).unwrap();
        let again = resolve_text(&toml::to_string(&plan).unwrap(), &Overrides::default()).unwrap();
        assert!(again.stop.margin.is_some() && again.stop.margin == plan.stop.margin, "{margin}");
    }
}

#[test]
fn a_gate_is_made_of_the_claims_that_allow_one_direction() {
    let text = plan_with(
        "claims = [\"untar.elapsed: candidate <= baseline within 1%\", \"untar.elapsed: xfs < ext4\"]\n[stop]\ngate = true",
    );
    let plan = resolve_text(&text, &Overrides::default()).unwrap();
    let gate: Vec<String> = plan.gate_claims().iter().map(|claim| claim.to_string()).collect();
    let variants = matrix::expand(&plan);
    assert_eq!(gate, [format!("untar.elapsed: {} <= {} within 1%", variants[1].name, variants[0].name)]);
    assert_eq!(plan.claims.iter().map(|claim| plan.gate_error_split(claim)).collect::<Vec<_>>(), [Some(1), None]);
    // A stored plan says so again.
    let stored = PlanFile::parse("plan.toml", toml::to_string(&plan).unwrap().as_bytes()).unwrap();
    assert!(*stored.file.stop.gate.unwrap().get_ref());
    let none = plan_with("claims = [\"untar.elapsed: xfs < ext4\"]\n[stop]\ngate = true");
    assert!(resolve_text(&none, &Overrides::default()).unwrap_err().contains("a gate needs a claim such as"));
    let overrides =
        Overrides { has_gate: true, claims: vec!["untar.elapsed: xfs < ext4".into()], ..Default::default() };
    assert!(resolve_text(MINIMAL, &overrides).unwrap_err().starts_with("max_slowdown: a gate needs a claim"));
}

#[test]
fn shards_need_a_number_of_rounds_that_nothing_changes() {
    let shard = |rounds| Overrides { seed: Some(1), shard: "3/500".parse().ok(), rounds, ..Overrides::default() };
    assert!(resolve_text(MINIMAL, &shard(None)).unwrap_err().contains("set it: rounds=N"));
    let text = plan_with("[stop]\nrounds = 500\nbest_within = \"1%\"");
    assert!(resolve_text(&text, &shard(None)).unwrap_err().contains("set it: rounds=N"));
    // As many rounds as an open-ended run has at most, and more.
    for rounds in [400, 500] {
        let stop = resolve_text(MINIMAL, &shard(Some(rounds))).unwrap().stop;
        assert_eq!((stop.rounds, stop.rounds_here()), (rounds, 1));
    }
}

#[test]
fn the_search_for_the_best_uses_the_average_of_plan_or_flag() {
    let stop = |lines: &str, overrides: &Overrides| {
        resolve_text(&plan_with(&format!("[stop]\n{lines}")), overrides).map(|plan| plan.stop)
    };
    let best_by = |lines: &str, overrides: &Overrides| stop(lines, overrides).unwrap().best_by;
    let none = Overrides::default();
    assert_eq!(best_by("best_within = \"1%\"", &none), Average::Typical);
    assert_eq!(best_by("best_within = \"1%\"\nbest_by = \"mean\"", &none), Average::Mean);
    let overrides = Overrides { best_by: Some(Average::Typical), ..Overrides::default() };
    assert_eq!(best_by("best_within = \"1%\"\nbest_by = \"mean\"", &overrides), Average::Typical);
    // Without best_within the average is ignored.
    assert_eq!(best_by("rounds = 9\nbest_by = \"mean\"", &none), Average::Typical);
    let wrong = stop("best_by = \"median\"", &none).unwrap_err();
    let expected = "plan.toml, line 3, column 11: cannot read the best_by `median`; write \"typical\" or \"mean\"";
    assert_eq!(wrong, expected);
}

#[test]
fn errors_in_claims_have_the_position_of_the_character() {
    for (claim, column, message) in [
        ("'untar.elapsed: xfs < '", 34, "claim: expected a variant"),
        ("'untar.elapsed: xfs << ext4'", 33, "claim: expected a variant"),
        ("'untra.elapsed: xfs < ext4'", 13, "claim: Unknown task `untra`. Did you mean `untar`?"),
        ("'untar.elapse: xfs < ext4'", 19, "claim: Unknown metric `elapse`. Did you mean `elapsed`?"),
        ("'untar.elapsed: xfs < etx4'", 34, "claim: Unknown variant `etx4`. Did you mean `ext4`?"),
        ("\"untar.elapsed: \\\"xfs\\\" < zfs\"", 38, "claim: Unknown variant `zfs`"),
        ("'  elapsed: best is  zfs'", 33, "claim: Unknown variant `zfs`"),
        ("'untar.elapsed: xfs < xfs'", 28, "claim: the claim compares a variant with itself"),
        (
            "'rnd.elapsed: xfs < ext4'",
            13,
            "claim: several tasks have this name; name one of rnd[bs=4096], rnd[bs=8192]",
        ),
        ("'rnd.elapsed[bs=1]: xfs < ext4'", 13, "claim: no task has these parameters. Available:"),
        ("'untar.elapsed: xfs < rnd.iops'", 38, "claim: Unknown metric `iops`"),
    ] {
        let error = resolve_text(&plan_with(&format!("claims = [ {claim} ]")), &Overrides::default()).unwrap_err();
        let expected = format!("plan.toml, line 2, column {column}: {message}");
        assert!(error.starts_with(&expected), "{claim}\n error: {error}\n expected: {expected}");
        assert_eq!(error.lines().count(), 1);
    }
    let overrides = Overrides { claims: vec!["untar.elapsed: xfs < etx4".into()], ..Default::default() };
    let error = resolve_text(MINIMAL, &overrides).unwrap_err();
    assert!(error.starts_with("claim: column 22: Unknown variant `etx4`"), "{error}");
    assert!(error.ends_with("\n  untar.elapsed: xfs < etx4\n                       ^"), "{error}");
    let margin = resolve_text(&plan_with("[stop]\nmargin = \"10001%\""), &Overrides::default()).unwrap_err();
    assert!(margin.starts_with("plan.toml, line 3, column 10: cannot read the margin `10001%`"), "{margin}");
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Text made of pieces of plans, so that more of it gets past the parser than random text.
    fn near_plan() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("name = \"x\"\n"),
            Just("[factors]\n"),
            Just("fs = "),
            Just("\"ext4\""),
            Just("[\"ext4\",\"xfs\"]"),
            Just("[[workload]]\n"),
            Just("use = \"coreutils\"\n"),
            Just("[[variant]]\n"),
            Just("[stop]\nrounds = "),
            Just("0"),
            Just("4294967296"),
            Just("-1"),
            Just("1e400"),
            Just("\n"),
            Just("{}"),
            Just("[]"),
            Just("nan"),
            Just("seed = 18446744073709551615\n"),
            Just("[scales.quick]\n"),
            Just("budget = \"1y\"\n"),
            Just("\""),
            Just("[idle]\ntimeout = \"-1s\"\n"),
            Just("copies = "),
            Just("driver = \"native\"\n"),
            Just("size = \"99999999EB\"\n"),
        ];
        prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = PlanFile::parse("plan.toml", &bytes);
        }

        #[test]
        fn near_plans_never_panic_and_their_errors_are_one_line(text in near_plan()) {
            if let Err(error) = resolve_text(&text, &Overrides::default()) {
                prop_assert_eq!(error.lines().count(), 1);
            }
        }

        #[test]
        fn a_resolved_plan_reads_back(rounds in 1u32..1000, seed in any::<u64>(), noatime in any::<bool>()) {
            let overrides = Overrides {
                rounds: Some(rounds),
                seed: Some(seed),
                factors: vec![("options".into(), vec![if noatime { "noatime" } else { "default" }.into()])],
                ..Default::default()
            };
            let plan = resolve_text(MINIMAL, &overrides).unwrap();
            let text = toml::to_string(&plan).unwrap();
            prop_assert_eq!(toml::from_str::<Plan>(&text).unwrap(), plan);
        }
    }
}

#[test]
fn a_stored_plan_whose_claim_names_a_variant_that_is_left_out_is_an_error() {
    let text = plan_with("claims = [\"untar.elapsed: ext4 < xfs\"]");
    let plan = resolve_text(&text, &Overrides::default()).unwrap();
    let stored = toml::to_string(&plan).unwrap();
    let one = Overrides { factors: vec![("fs".into(), vec!["ext4".into()])], ..Overrides::default() };
    let error = resolve_text(&stored, &one).unwrap_err();
    assert!(error.starts_with("plan.toml, line 1, column 1: claim: Unknown variant `xfs`"), "{error}");
}

#[test]
fn two_tasks_of_the_same_name_are_refused() {
    let double = |plan: &Plan| [vocabulary().list_tasks, vocabulary().list_tasks].map(|list| list(plan)).concat();
    let parsed = PlanFile::parse("plan.toml", MINIMAL.as_bytes()).unwrap();
    let vocabulary = Vocabulary { list_tasks: double, ..vocabulary() };
    let error = resolve(&parsed, &Overrides::default(), &vocabulary).unwrap_err().to_string();
    assert!(error.contains("two tasks have the name `untar`"), "{error}");
}
