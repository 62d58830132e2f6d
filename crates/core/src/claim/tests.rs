use super::*;
use crate::average::Average;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn claim(text: &str) -> Claim {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn pair(text: &str) -> PairRelation {
    match claim(text).relation {
        Relation::Pair(pair) => pair,
        relation => panic!("{relation:?}"),
    }
}

fn error(text: &str) -> String {
    text.parse::<Claim>().unwrap_err().to_string()
}

#[test]
fn every_documented_form_is_displayed_unchanged() {
    for text in [
        "untar.elapsed: xfs < ext4",
        "untar.elapsed: xfs < ext4 by 5%",
        "rm.system: patched == base within 0.5%",
        "rm.system: patched <= base within 1%",
        "rndwr.iops[bs=4096,threads=1]: ext4 > btrfs",
        "geomean.elapsed: best is xfs",
        "iowait_per_request: best is xfs",
        "untar.elapsed: worst is not \"ext2/mkfs=-b 1024\"",
        "seqwr.iops: ext4 < rndwr.iops",
        "throughput[clients=5]: xfs >= 0.97 * ext2 within 3%",
        "copy-in.elapsed: ext4/mkfs=^has_journal,x != ext4/mount=data=writeback by 2%",
        "untar.elapsed: 6.12 < 6.18",
        "throughput[clients=1]: ext4 < throughput[clients=5]",
        "elapsed: ext4 < synced[]",
        "untar.elapsed: a < \"b.c\"",
        "elapsed: xfs < ext4 by mean",
        "elapsed: xfs < ext4 by 5% by mean",
        "elapsed: xfs <= ext4 within 1% by mean",
        "elapsed: seqwr.iops > rndwr.iops by mean",
        "total.elapsed: best is not xfs by mean",
    ] {
        assert_eq!(claim(text).to_string(), text);
        assert_eq!(claim(text).text, text);
    }
}

#[test]
fn a_claim_is_parsed_into_quantity_parameters_and_relation() {
    assert_eq!(claim("x: a < b  # why").text, "x: a < b");
    let parsed = claim("  throughput[ clients=5, \tbs=\"a,b\" ]:xfs>=0.97*ext2 within 3%  # why");
    assert_eq!(parsed.text, "throughput[ clients=5, \tbs=\"a,b\" ]:xfs>=0.97*ext2 within 3%");
    assert_eq!((parsed.subject.task.as_deref(), parsed.subject.metric.as_str()), (None, "throughput"));
    assert_eq!(parsed.subject.params, BTreeMap::from([("clients".into(), "5".into()), ("bs".into(), "a,b".into())]));
    let Relation::Pair(pair) = &parsed.relation else { panic!("{parsed:?}") };
    assert_eq!(
        (pair.left.as_str(), pair.op, pair.factor, pair.fraction()),
        ("xfs", ClaimOperator::AtLeast, 0.97, Some(0.03))
    );
    assert_eq!(pair.right, RightSide::Variant("ext2".into()));
    assert_eq!(parsed.variants(), ["xfs", "ext2"]);
}

#[test]
fn a_claim_is_about_the_typical_round_unless_it_names_the_mean() {
    let average = |text: &str| claim(text).average;
    assert_eq!(average("x: a < b by 1%"), Average::Typical);
    assert_eq!(average("x: a < b by typical"), Average::Typical);
    assert_eq!(average("x: a == b by mean # why"), Average::Mean);
    assert_eq!(pair("x: a < b by 2% by mean").percent, Some(2.0));
    assert_eq!(pair("x: a < mean by mean").right, RightSide::Variant("mean".into()));
    assert_eq!(claim("x: a < b by  typical").to_string(), "x: a < b");
}

#[test]
fn a_single_equals_sign_is_part_of_the_name() {
    let parsed = pair("x.elapsed: fs=ext4==fs=xfs");
    assert_eq!(
        (parsed.left.as_str(), parsed.op, parsed.right),
        ("fs=ext4", ClaimOperator::Equal, RightSide::Variant("fs=xfs".into()))
    );
}

#[test]
fn the_right_side_is_a_variant_or_a_quantity() {
    let quantity = Quantity { task: Some("rndwr".into()), metric: "iops".into(), params: BTreeMap::new() };
    assert_eq!(pair("seqwr.iops: ext4 < rndwr.iops").right, RightSide::Quantity(quantity));
    assert_eq!(pair("seqwr.iops: ext4 < \"rndwr.iops\"").right, RightSide::Variant("rndwr.iops".into()));
    assert_eq!(pair("a.elapsed: ext4 < ext4/kernel=6.12").right, RightSide::Variant("ext4/kernel=6.12".into()));
}

#[test]
fn roles_are_replaced_by_the_names_of_two_variants() {
    let named = |text: &str, variants: &[&str]| {
        let mut claim = claim(text);
        claim.replace_roles(variants);
        assert_eq!(claim.text.parse::<Claim>().unwrap().relation, claim.relation);
        claim.text
    };
    let (text, names) = ("rm.elapsed: candidate <= baseline within 1%  # why", ["old", "a b"]);
    assert_eq!(named(text, &names), "rm.elapsed: \"a b\" <= old within 1%");
    assert_eq!(named("x: best is candidate", &names), "x: best is \"a b\"");
    // A variant may have such a name, and without two variants there are no roles.
    assert_eq!(named("x: candidate < baseline", &["candidate", "xfs"]), "x: candidate < candidate");
    assert_eq!(named("x: candidate < baseline", &["a", "b", "c"]), "x: candidate < baseline");
    assert!(claim(text).is_one_sided() && !claim("x: a < b").is_one_sided());
    assert!(!claim("x: best is a").is_one_sided() && !claim("x: a <= y.z").is_one_sided());
}

#[test]
fn keywords_in_quotes_are_variants() {
    assert_eq!(pair("a.elapsed: \"best\" < \"by\" by 1%").left, "best");
    assert_eq!(pair("a.elapsed: bestial < isle").left, "bestial");
}

#[test]
fn errors_have_the_column_of_the_character() {
    assert_eq!(
        error("untar.elapsed: xfs < by 5%"),
        "claim, column 22: expected a variant, found `by`\n  untar.elapsed: xfs < by 5%\n                       ^"
    );
    for (text, column, message) in [
        ("", 1, "expected a quantity such as `untar.elapsed`, found the end"),
        ("untar.: a < b", 1, "expected a quantity such as `untar.elapsed`, found `untar.:`"),
        ("untar.elapsed a < b", 15, "expected `:` and a relation, found `a`"),
        ("x: a = b", 6, "expected `==` for equal, found `=`"),
        ("x: a b", 6, "expected one of < <= == != >= >, found `b`"),
        ("x: a <", 7, "expected a variant, found the end"),
        ("x: a < b within 5%", 10, "`<` goes with `by`, not with `within`"),
        ("x: a == b by 5%", 11, "`==` goes with `within`, not with `by`"),
        ("x: a < b by 5", 14, "expected `%`, found the end"),
        ("x: a < b by", 12, "expected a percentage such as `5%`, or `mean`, found the end"),
        ("x: a < b by 1.2.3%", 13, "expected a number above 0, found `1.2.3`"),
        ("x: a < b by 100%", 13, "nothing can be 100% or more below something else"),
        ("x: a < 0 * b", 8, "expected a number above 0, found `0`"),
        ("x: a < b by mean by mean", 18, "expected the end of the claim, found `by`"),
        ("x: best is a by 5%", 14, "expected the end of the claim, found `by`"),
        ("x: a < b or c", 10, "expected the end of the claim, found `or`"),
        ("x: best xfs", 9, "expected `is`, found `xfs`"),
        ("x: best is", 11, "expected a variant, found the end"),
        ("x: a < \"b", 8, "this quote is never closed"),
        ("x: a < \"b\\c\"", 11, "expected `\"`, `\\` or `n` behind `\\`, found `c`"),
        ("x[bs]: a < b", 5, "expected `=`, found `]`"),
        ("x[bs=]: a < b", 6, "expected a value, found `]`"),
        ("x[bs=1 t=2]: a < b", 8, "expected `,` or `]`, found `t=2`"),
        ("x[bs=1,bs=2]: a < b", 8, "this parameter is given twice"),
    ] {
        let error = text.parse::<Claim>().unwrap_err();
        assert_eq!((error.column, error.message.as_str()), (column, message), "{text}");
    }
}

#[test]
fn parse_claims_skips_comments_and_reports_the_line_of_an_error() {
    let text = "# what the author says\n\nx: best is xfs\n  y.z: a < b # here\n";
    assert_eq!(parse_claims(text).unwrap().len(), 2);
    let error = parse_claims("x: best is xfs\nx: a ~ b\n").unwrap_err();
    assert!(error.to_string().starts_with("claim, line 2, column 6: expected one of"), "{error}");
}

#[test]
fn claims_are_serialized_as_strings() {
    let parsed: Vec<Claim> = serde_json::from_str("[\"x: a < b\"]").unwrap();
    assert_eq!(serde_json::to_string(&parsed).unwrap(), "[\"x: a < b\"]");
    assert!(serde_json::from_str::<Claim>("\"x: a\"").unwrap_err().to_string().contains("column 5"));
}

fn quantities() -> impl Strategy<Value = Quantity> {
    let params = prop::collection::btree_map("[a-z_]{1,5}", any::<String>(), 0..3);
    (prop::option::of("[a-z][a-z0-9-]{0,5}"), "[a-z][a-z_]{0,8}", params).prop_map(|(task, metric, params)| Quantity {
        task,
        metric,
        params,
    })
}

fn variants() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z0-9./=,^<>!# \\\\\"*-]{0,12}", "best|is|not|by|within|a.b"]
}

fn relations() -> impl Strategy<Value = Relation> {
    let op = prop_oneof![
        Just(ClaimOperator::Less),
        Just(ClaimOperator::AtMost),
        Just(ClaimOperator::Equal),
        Just(ClaimOperator::NotEqual),
        Just(ClaimOperator::AtLeast),
        Just(ClaimOperator::More)
    ];
    let right = prop_oneof![variants().prop_map(RightSide::Variant), quantities().prop_map(RightSide::Quantity)];
    let percent = prop::option::of(0.001..99.0);
    let pair = (variants(), op, 0.01..100.0, right, percent)
        .prop_map(|(left, op, factor, right, percent)| PairRelation { left, op, factor, right, percent });
    let place = prop_oneof![Just(BestOrWorst::Best), Just(BestOrWorst::Worst)];
    let extreme = (place, variants(), any::<bool>()).prop_map(|(place, variant, negated)| ExtremeRelation {
        place,
        variant,
        negated,
    });
    prop_oneof![pair.prop_map(Relation::Pair), extreme.prop_map(Relation::Extreme)]
}

proptest! {
    #[test]
    fn a_displayed_claim_parses_to_the_same_claim(
        subject in quantities(),
        relation in relations(),
        average in prop::sample::select(Average::ALL.to_vec()),
    ) {
        let written = Claim { text: String::new(), subject, relation, average };
        let text = written.to_string();
        let parsed = text.parse::<Claim>().map_err(|e| TestCaseError::fail(e.to_string()))?;
        let parts = |claim: &Claim| (claim.subject.clone(), claim.relation.clone(), claim.average);
        prop_assert_eq!(parts(&parsed), parts(&written), "{}", text);
        prop_assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn errors_in_random_text_have_a_column_within_the_text(text in any::<String>()) {
        if let Err(error) = text.parse::<Claim>() {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
            let _ = error.to_string();
        }
    }

    #[test]
    fn text_made_of_pieces_of_claims_never_panics(text in "([a-z.:<>=!*\"#\\[\\],%0-9\\\\ ]|best|is|not|by|within|mean){0,30}") {
        let _ = text.parse::<Claim>().map_err(|error| error.to_string());
        let _ = parse_claims(&text);
    }
}
