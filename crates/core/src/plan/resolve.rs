//! From what was written to what it means here: defaults, the command line, and every check.

mod factors;
mod stop;
mod variants;
mod workloads;

pub use super::given::{Overrides, Vocabulary};

use super::file::{PlanFile, ScaleFile};
use super::{Backing, DevicePlan, IdlePlan, Plan, Written, claims, error::PlanError, limits};
use crate::{factor, scale::Scale};
use bytesize::ByteSize;
use std::ops::Range;
use toml::Spanned;

/// A value that a plan gives as text.
type Text = Option<Spanned<String>>;

/// Resolves a parsed plan.
///
/// # Errors
/// One, with line and column where it lies in the plan's text, or the flag where it lies in one.
pub fn resolve(written: &Written, over: &Overrides, words: &Vocabulary) -> Result<Plan, PlanError> {
    let scale = over.scale.or(written.file.scale).unwrap_or_default();
    let at_scale = written.file.scales.get(&scale).cloned().unwrap_or_default();
    Resolver { written, file: &written.file, scale, at_scale, over, words }.plan()
}

struct Resolver<'a> {
    written: &'a Written,
    file: &'a PlanFile,
    scale: Scale,
    /// What differs at that scale.
    at_scale: ScaleFile,
    over: &'a Overrides,
    words: &'a Vocabulary,
}

impl Resolver<'_> {
    fn plan(&self) -> Result<Plan, PlanError> {
        let (file, stored) = (self.file, self.written.stored.as_ref());
        if file.name.get_ref().is_empty() || file.name.get_ref().contains(['/', '\n', '\0']) {
            return self
                .bad(file.name.span(), "the name becomes part of a directory's: one word without `/`");
        }
        let written_seed = file.seed.as_ref().map(|seed| *seed.get_ref());
        let (factors, without_options) = self.factors()?;
        let omitted = without_options.into_iter().chain(self.settings_without_use()).collect();
        let [name, title, question] = self
            .words_of_workload()
            .unwrap_or_else(|| [file.name.get_ref().clone(), file.title.clone(), file.question.clone()]);
        let mut plan = Plan {
            name,
            title,
            question,
            scale: self.scale,
            // TOML's whole numbers end at 2^63 - 1, and the resolved plan is TOML.
            seed: self.over.seed.or(written_seed).unwrap_or(self.over.fresh_seed) & (u64::MAX >> 1),
            claims: vec![],
            stage: stored.and_then(|plan| plan.stage.clone()),
            factors,
            omitted: stored.map_or(omitted, |plan| plan.omitted.clone()),
            device: self.device()?,
            stop: self.stop()?,
            idle: self.idle()?,
            variants: self.variants()?,
            workloads: self.workloads()?,
        };
        self.variant_names_differ(&plan)?;
        if self.rounds_by_default() {
            let most = plan.stop.rounds;
            plan.stop.rounds = (self.words.rounds)(&plan).min(most);
        }
        plan.claims = claims::resolve(self.written, self.over, &plan, self.words)?;
        Ok(plan)
    }

    fn bad<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::at(&self.written.origin, &self.written.text, span, message))
    }

    /// An error of the plan as a whole.
    fn fault(&self, message: impl Into<String>) -> PlanError {
        PlanError::flag(&self.written.origin, message)
    }

    fn device(&self) -> Result<DevicePlan, PlanError> {
        let (device, over) = (&self.file.device, self.over);
        if let Some(name) = &device.other_fs
            && let Some(message) = self.level_fault(factor::FS, name.get_ref())
        {
            return self.bad(name.span(), message);
        }
        Ok(DevicePlan {
            backing: over.backing.clone().unwrap_or(Backing::Loop { path: over.images.clone() }),
            size: over.size.or(self.device_size(&device.size)?),
            direct_io: device.direct_io.unwrap_or(true),
            discard: device.discard.unwrap_or(false),
            precondition: over.precondition || device.precondition.unwrap_or(false),
            other_fs: device.other_fs.as_ref().map_or("ext4".into(), |name| name.get_ref().clone()),
            other_dir: over.other_dir.clone(),
            other_device: over.other_device.clone(),
        })
    }

    fn idle(&self) -> Result<IdlePlan, PlanError> {
        let idle = &self.file.idle;
        let pressure = self.within(idle.io_pressure_percent.as_ref(), limits::share)?;
        Ok(IdlePlan {
            timeout_s: self.duration(&idle.timeout)?.unwrap_or(5.0),
            dirty: self.size(&idle.dirty)?.unwrap_or(ByteSize::mib(4)),
            io_pressure_percent: pressure.unwrap_or(10.0),
        })
    }

    fn device_size(&self, text: &Text) -> Result<Option<ByteSize>, PlanError> {
        let at = text.as_ref().zip(self.size(text)?).map(|(text, size)| Spanned::new(text.span(), size));
        self.within(at.as_ref(), limits::size)
    }

    fn size(&self, text: &Text) -> Result<Option<ByteSize>, PlanError> {
        self.read(text, |text| text.parse().ok(), "size", "write it like \"2GiB\"")
    }

    /// A value of the plan within its limit; none where the plan has none.
    fn within<T: Copy>(
        &self,
        value: Option<&Spanned<T>>,
        limit: fn(T) -> Result<T, String>,
    ) -> Result<Option<T>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        limit(*value.get_ref()).map(Some).or_else(|fault| self.bad(value.span(), fault))
    }

    fn duration(&self, text: &Text) -> Result<Option<f64>, PlanError> {
        let seconds = |text: &str| humantime::parse_duration(text).ok().map(|time| time.as_secs_f64());
        let read = self.read(text, seconds, "time", "write it like \"150s\" or \"10m\"")?;
        let at = text.as_ref().zip(read).map(|(text, seconds)| Spanned::new(text.span(), seconds));
        self.within(at.as_ref(), limits::seconds)
    }

    fn read<T>(
        &self,
        text: &Text,
        read: impl Fn(&str) -> Option<T>,
        what: &str,
        how: &str,
    ) -> Result<Option<T>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match read(text.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => self.bad(text.span(), format!("cannot read the {what} `{}`; {how}", text.get_ref())),
        }
    }
}
