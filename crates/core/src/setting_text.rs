//! Formats the settings of a run in messages.
//!
//! A message that advises a larger budget or another place to run names the setting. Libraries have only the name of the
//! setting; a program shows it as its users write it: as a flag, a key of a form, a field. See [`format_settings_by`].

use std::sync::OnceLock;

/// A function that formats a setting and its value, which is empty if the message names the setting alone.
pub type SettingFormat = fn(name: &str, value: &str) -> String;

static FORMAT: OnceLock<SettingFormat> = OnceLock::new();

/// Sets how messages name settings in this process: `budget=4m` by default. Only the first call counts. Agents,
/// which are the same program, format messages too, so call this before `run_as_agent_if_requested`.
pub fn format_settings_by(format: SettingFormat) {
    let _ = FORMAT.set(format);
}

/// Formats a setting with a value, or alone if the value is empty, as the users of this program write it.
pub fn setting(name: &str, value: &str) -> String {
    match FORMAT.get() {
        Some(format) => format(name, value),
        None if value.is_empty() => name.into(),
        None => format!("{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_a_setting_is_its_name_and_value() {
        assert_eq!(setting("budget", "4m"), "budget=4m");
        assert_eq!(setting("guest_memory", ""), "guest_memory");
    }
}
