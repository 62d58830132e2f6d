//! Parses the text of a plan: a plan file that a person wrote, or the stored plan of a run. Also extracts single stages.
//!
//! The plan that a run stores is complete ([`Plan`]): every setting has a value. A plan file leaves most settings out. This
//! module converts a stored plan back to a plan file, so that the command line can change it and every check runs again: a
//! stored plan may come from an untrusted source.

use super::Plan;
use super::error::{PlanError, line_and_column, reword_parser_message};
use super::file::{AgeTable, DeviceTable, IdleTable, MAX_PLAN_BYTES, Pairs, PlanFile, StageTable, StopTable};
use super::limits::format_size;
use crate::cell::Variant;
use crate::{escape, matrix};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A parsed plan, from a plan file or a stored run, with its text, which error positions refer to.
#[derive(Debug, Clone)]
pub struct ParsedPlan {
    /// The name of the plan in errors: the file's path, or `study NAME`.
    pub origin: String,
    /// The text.
    pub text: String,
    /// The parsed text.
    pub file: PlanFile,
    /// The complete plan, if the text is the stored plan of a run.
    pub stored: Option<Plan>,
}

impl ParsedPlan {
    /// The plan of one stage. It keeps the whole text, because error positions refer to that.
    pub fn of_stage(&self, stage: &StageTable) -> ParsedPlan {
        ParsedPlan { file: self.file.of_stage(stage), ..self.clone() }
    }
}

impl PlanFile {
    /// Parses a plan: one that a person wrote, or the stored plan of a run. `origin` names it in errors.
    ///
    /// # Errors
    /// The text is too large, not UTF-8, not TOML, has a NUL character, an unknown key or a wrong type, or its stages
    /// contradict each other. The error has line and column where possible.
    ///
    /// # Examples
    /// ```
    /// use fsarena_core::plan::file::PlanFile;
    ///
    /// let text = "name = 'mail'\n[factors]\nfs = ['ext4', 'xfs']\n[[workload]]\nuse = 'tree'\n";
    /// let parsed = PlanFile::parse("mail.toml", text.as_bytes())?;
    /// assert_eq!(*parsed.file.name.get_ref(), "mail");
    ///
    /// let error = PlanFile::parse("mail.toml", b"name = 'mail'\nfactor = 1\n").unwrap_err();
    /// assert!(error.to_string().contains("line 2, column 1"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<ParsedPlan, PlanError> {
        if bytes.len() > MAX_PLAN_BYTES {
            let message = format!("too large for a plan; the limit is {} MiB", MAX_PLAN_BYTES >> 20);
            return Err(PlanError { origin: origin.into(), position: Some((1, 1)), message });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| PlanError {
            origin: origin.into(),
            position: Some(line_and_column(bytes, error.valid_up_to())),
            message: "a plan is UTF-8 text, and this byte is not".into(),
        })?;
        let syntax_error = |error: toml::de::Error| {
            let first = error.message().lines().next().unwrap_or("is not TOML");
            // The parser gives no position if the text is nested too deeply.
            PlanError::at_span(origin, text, error.span().unwrap_or(0..0), reword_parser_message(first))
        };
        let table = DeTable::parse(text).map_err(syntax_error)?;
        if let Some(span) = table.get_ref().iter().find_map(|(key, value)| find_nul(key, value)) {
            let message = "no path, option, command or name can have a NUL character in it: take it out";
            return Err(PlanError::at_span(origin, text, span, message));
        }
        let stored: Option<Plan> = is_stored(text).then(|| toml::from_str(text)).transpose().map_err(syntax_error)?;
        let file = match &stored {
            Some(plan) => convert_to_plan_file(plan),
            None => toml::from_str(text).map_err(syntax_error)?,
        };
        file.check_stages().map_err(|fault| PlanError::without_position(origin, fault))?;
        Ok(ParsedPlan { origin: origin.into(), text: text.into(), file, stored })
    }
}

/// The byte range of the first key or value with a NUL character. System calls would cut a path or an argument there.
fn find_nul(key: &Spanned<DeString>, value: &Spanned<DeValue>) -> Option<Range<usize>> {
    if key.get_ref().contains('\0') {
        return Some(key.span());
    }
    match value.get_ref() {
        DeValue::String(text) if text.contains('\0') => Some(value.span()),
        DeValue::Array(values) => values.iter().find_map(|value| find_nul(key, value)),
        DeValue::Table(table) => table.iter().find_map(|(key, value)| find_nul(key, value)),
        _ => None,
    }
}

/// The longest line of a plan that an error repeats, in characters.
const MAX_LINE_LENGTH: usize = 120;

/// Whether the text is a stored plan: only stored plans have the key `device.backing`. For a plan file, the command line
/// selects the backing.
fn is_stored(text: &str) -> bool {
    toml::from_str::<toml::Table>(text)
        .is_ok_and(|table| table.get("device").is_some_and(|device| device.get("backing").is_some()))
}

impl Plan {
    /// Parses the complete plan of a run from the text in the store.
    ///
    /// # Errors
    /// The text is not TOML, lacks a key, has a number beyond its limit, or has too many variants or tasks. The message names
    /// the line.
    pub fn of_stored(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| with_line(text, &error))?;
        matrix::check_plan_size(&plan)?;
        Ok(plan)
    }
}

/// The parser's message with its line: ``line 21, `warmup = 9000`: at most 5000 warm-up rounds``.
fn with_line(text: &str, error: &toml::de::Error) -> String {
    let fault = reword_parser_message(error.message().lines().next().unwrap_or("this is not TOML"));
    let Some(span) = error.span() else { return fault };
    let (line, _) = line_and_column(text.as_bytes(), span.start);
    let line_text = text.lines().nth(line - 1).unwrap_or_default();
    format!("line {line}, `{}`: {fault}", escape::shorten(line_text.trim(), MAX_LINE_LENGTH))
}

/// Converts a stored plan to a plan file with the same settings.
fn convert_to_plan_file(plan: &Plan) -> PlanFile {
    let (stop, idle, device) = (&plan.stop, &plan.idle, &plan.device);
    let (rounds, max_rounds) = if stop.is_adaptive() { (None, Some(stop.rounds)) } else { (Some(stop.rounds), None) };
    // Thirteen digits leave out binary noise: 0.07 * 100 is 7.000000000000001.
    let percent = |fraction: f64| without_position(format!("{:.12e}%", 100.0 * fraction));
    let variant = |variant: &Variant| {
        pairs_without_position(variant.levels.clone().into_iter().chain([("name".to_string(), variant.name.clone())]))
    };
    let workload =
        |workload| pairs_without_position(toml::Table::try_from(workload).expect("a workload is plain data"));
    PlanFile {
        name: without_position(plan.name.clone()),
        title: plan.title.clone(),
        question: plan.question.clone(),
        scale: Some(plan.scale),
        seed: Some(without_position(plan.seed)),
        claims: plan.claims.iter().map(|claim| without_position(claim.text.clone())).collect(),
        factors: pairs_without_position(plan.factors.clone()),
        vary: pairs_without_position(plan.vary.clone()),
        // A stored plan already lists a workload for each value of its grids.
        grid: Pairs::new(),
        variants: plan.variants.iter().map(variant).collect(),
        device: DeviceTable {
            size: device.size.map(|size| without_position(format_size(size))),
            direct_io: Some(device.direct_io),
            discard: Some(device.discard),
            precondition: Some(device.precondition),
            other_fs: Some(without_position(device.other_fs.clone())),
        },
        age: AgeTable { images: Some(without_position(plan.age.images)), repository: plan.age.repository.clone() },
        stop: StopTable {
            rounds: rounds.map(without_position),
            // A plan file states the warm-up rounds of each machine; a stored plan states the sum over all shards.
            warmup: Some(without_position(stop.warmup_here())),
            budget: stop.budget_s.map(format_seconds).map(without_position),
            max_rounds: max_rounds.map(without_position),
            gate: stop.has_gate.then(|| without_position(true)),
            margin: stop.margin.map(percent),
            best_within: stop.best_within.map(percent),
            best_metric: stop.best_metric.clone(),
            best_by: (!stop.best_by.is_typical()).then(|| without_position(stop.best_by.name().into())),
        },
        idle: IdleTable {
            timeout: Some(without_position(format_seconds(idle.timeout_s))),
            dirty: Some(without_position(format_size(idle.dirty))),
            io_pressure_percent: Some(without_position(idle.io_pressure_percent)),
        },
        // A stored plan is resolved for one scale and one stage. Published figures and conclusions are not part of it.
        scales: BTreeMap::new(),
        published: Default::default(),
        stages: vec![],
        conclusions: vec![],
        workloads: plan.workloads.iter().map(workload).collect(),
    }
}

/// Gives a value position 0, because values of a stored plan have no position in a text.
fn without_position<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Gives each key and value position 0.
fn pairs_without_position<V: Into<toml::Value>>(pairs: impl IntoIterator<Item = (String, V)>) -> Pairs {
    pairs.into_iter().map(|(id, value)| (without_position(id), without_position(value.into()))).collect()
}

/// Formats a number of seconds as in a plan: `50ms`. A number that is not a valid time is printed as it is; resolving the plan
/// then rejects it.
fn format_seconds(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => humantime::format_duration(time).to_string(),
        Err(_) => seconds.to_string(),
    }
}

impl PlanFile {
    /// The plan of one stage: the whole plan with the factors, settings and scales of the stage laid over it.
    pub fn of_stage(&self, stage: &StageTable) -> PlanFile {
        let mut file = self.clone();
        file.stages.clear();
        if !stage.question.is_empty() {
            file.question.clone_from(&stage.question);
        }
        override_values(&mut file.factors, &stage.factors);
        override_values(&mut file.grid, &stage.grid);
        if let Some(workload) = &stage.workload {
            let key = Spanned::new(0..0, "use".to_string());
            file.workloads = vec![[(key, workload.clone())].into()];
        }
        for workload in &mut file.workloads {
            override_values(workload, &stage.set);
        }
        for (scale, of_stage) in &stage.scales {
            let of_plan = file.scales.entry(*scale).or_default();
            of_plan.rounds = of_stage.rounds.clone().or(of_plan.rounds.take());
            of_plan.budget = of_stage.budget.clone().or(of_plan.budget.take());
            override_values(&mut of_plan.set, &of_stage.set);
            override_values(&mut of_plan.factors, &of_stage.factors);
            override_values(&mut of_plan.grid, &of_stage.grid);
        }
        file
    }

    /// Checks the stages. A stage may use the best level only of a stage before it.
    ///
    /// # Errors
    /// Two stages have the same name, a stage needs one that does not come before it, or it has only one of `best` and `of`.
    fn check_stages(&self) -> Result<(), String> {
        let mut earlier = BTreeSet::new();
        for stage in &self.stages {
            if earlier.contains(&stage.name) {
                return Err(format!("two stages are called `{}`", stage.name));
            }
            match (&stage.best_factor, &stage.earlier_stage) {
                (None, None) => {}
                (Some(_), Some(needed)) if earlier.contains(needed) => {}
                (Some(_), Some(needed)) => {
                    return Err(match self.stage_cycle(stage) {
                        Some(cycle) => format!("stages need each other in a circle: {cycle}"),
                        None => format!("no stage before `{}` is called `{needed}`", stage.name),
                    });
                }
                _ => return Err(format!("stage `{}`: `best` and `of` go together", stage.name)),
            }
            earlier.insert(&stage.name);
        }
        Ok(())
    }

    /// The cycle of stages that leads from a stage back to itself: `` `a` → `b` → `a` ``. None if there is no cycle.
    fn stage_cycle(&self, start: &StageTable) -> Option<String> {
        let mut cycle = format!("`{}`", start.name);
        let mut stage = start;
        for _ in &self.stages {
            let needed = stage.earlier_stage.as_ref()?;
            cycle.push_str(&format!(" → `{needed}`"));
            if *needed == start.name {
                return Some(cycle);
            }
            stage = self.stages.iter().find(|stage| stage.name == *needed)?;
        }
        None
    }
}

/// Sets the values in `overrides`, and replaces the values with the same keys. Overrides keep their own positions in the text.
fn override_values(values: &mut Pairs, overrides: &Pairs) {
    for (id, value) in overrides {
        values.remove(id);
        values.insert(id.clone(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::resolve::Overrides;
    use crate::plan::tests::plan_with;
    use crate::plan::{Accelerator, Backing, Emulator, GuestPlan};
    use crate::scale::Scale;

    fn store_and_parse(plan: &Plan) -> ParsedPlan {
        PlanFile::parse("saved.toml", toml::to_string(plan).unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn a_device_is_erased_only_where_the_command_line_names_it() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.device.backing = Backing::Erase { path: "/dev/disk/by-id/x".into(), signature: None };
        let parsed = store_and_parse(&plan);
        let error = Overrides::default().keep_devices_of(&parsed).unwrap_err().to_string();
        assert!(error.contains("/dev/disk/by-id/x") && error.contains("erase=DEVICE"), "{error}");
        let mut overrides = Overrides { backing: Some(Backing::Ram), ..Overrides::default() };
        overrides.keep_devices_of(&parsed).unwrap();
        assert_eq!(overrides.backing, Some(Backing::Ram));
    }

    #[test]
    fn a_resumed_run_uses_its_guest_again_and_selects_the_accelerator_anew() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        let guest = GuestPlan { boots_anew: true, ..GuestPlan::of(Emulator::Qemu) };
        plan.device.backing = Backing::Guest(GuestPlan { accelerator: Some(Accelerator::Kvm), ..guest.clone() });
        let mut overrides = Overrides::default();
        overrides.keep_devices_of(&store_and_parse(&plan)).unwrap();
        assert_eq!(overrides.backing, Some(Backing::Guest(guest)));
    }

    #[test]
    fn invalid_seconds_are_printed_as_a_text_that_is_not_a_duration() {
        assert_eq!((format_seconds(0.05).as_str(), format_seconds(5.0).as_str()), ("50ms", "5s"));
        for invalid in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(humantime::parse_duration(&format_seconds(invalid)).is_err());
        }
    }

    const TWO_STAGES: &str = "name = 'x'\n[factors]\nfs = ['ext4']\n[scales.quick]\nrounds = 3\n[[workload]]\nuse = 'w'\n\
        clients = 1\n[[stage]]\nname = 'one'\nfactors = { scheduler = ['none'] }\nset = { clients = [5] }\n\
        [[stage]]\nname = 'two'\nbest = 'scheduler'\nof = 'one'\nquestion = 'Then?'\n\
        [stage.scales.quick]\nbudget = '9s'\nset = { seconds = 1 }\n";

    fn parsed_file(text: &str) -> PlanFile {
        PlanFile::parse("x", text.as_bytes()).unwrap().file
    }

    #[test]
    fn a_stage_overrides_only_the_settings_that_it_names() {
        let file = parsed_file(TWO_STAGES);
        let (one, two) = (file.of_stage(&file.stages[0]), file.of_stage(&file.stages[1]));
        assert_eq!((one.factors.len(), two.factors.len()), (2, 1));
        let clients = |file: &PlanFile| {
            let pairs = &file.workloads[0];
            pairs.iter().find(|(id, _)| id.get_ref() == "clients").unwrap().1.get_ref().clone()
        };
        assert!(clients(&one).is_array() && clients(&two).is_integer());
        let quick = &two.scales[&Scale::Quick];
        assert_eq!((*quick.rounds.as_ref().unwrap().get_ref(), quick.set.len()), (3, 1));
        assert_eq!((two.question.as_str(), one.stages.len()), ("Then?", 0));
        assert_eq!(file.check_stages(), Ok(()));
    }

    #[test]
    fn a_stage_may_depend_only_on_earlier_stages() {
        let fault = |old: &str, new: &str| {
            PlanFile::parse("x", TWO_STAGES.replace(old, new).as_bytes()).unwrap_err().to_string()
        };
        assert!(fault("of = 'one'", "of = 'two'").contains("in a circle: `two` → `two`"));
        assert!(fault("of = 'one'", "of = 'three'").contains("no stage before `two` is called `three`"));
        let cycle = "name = 'one'\nbest = 'fs'\nof = 'two'";
        assert!(fault("name = 'one'", cycle).contains("in a circle: `one` → `two` → `one`"));
        assert!(fault("of = 'one'", "").contains("go together"));
        assert!(fault("name = 'two'", "name = 'one'").contains("two stages are called `one`"));
    }
}
