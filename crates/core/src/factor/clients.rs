//! The factor `clients`: the number of clients or threads of the load.

use super::{CLIENTS, parsed};
use crate::setting::{Settings, Value};

/// The names of the settings that hold the number of clients of a workload.
pub(crate) const SETTINGS: [&str; 2] = [CLIENTS, "threads"];

/// Parses a level. None for an empty level, which keeps the workload's own number.
///
/// # Errors
/// The level is not a number from 1 to 1024.
pub fn parse(level: &str) -> Result<Option<u32>, String> {
    let clients = |level: &str| level.parse().ok().filter(|clients| (1..=1024).contains(clients));
    parsed(level, "number of clients", "a number from 1 to 1024", clients)
}

/// Whether these settings of a workload include a number of clients.
pub fn applies(settings: &Settings) -> bool {
    SETTINGS.iter().any(|id| settings.0.contains_key(*id))
}

/// Sets the number of clients in the settings.
pub fn set(settings: &mut Settings, clients: u32) {
    for id in SETTINGS {
        if let Some(value) = settings.0.get_mut(id) {
            let one = Value::Int(i64::from(clients));
            *value = if matches!(value, Value::List(_)) { Value::List(vec![one]) } else { one };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_replaces_the_number_or_list_of_clients() {
        let list = Value::List(vec![Value::Int(1), Value::Int(16)]);
        let mut settings = Settings([("threads".to_string(), list), ("bs".into(), Value::Int(5))].into());
        assert!(applies(&settings));
        set(&mut settings, 4);
        assert_eq!(settings.0["threads"], Value::List(vec![Value::Int(4)]));
        assert_eq!(settings.0["bs"], Value::Int(5));
        assert!(parse("0").is_err() && parse("many").is_err() && parse("5") == Ok(Some(5)));
    }
}
