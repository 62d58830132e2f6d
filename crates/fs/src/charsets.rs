//! Tables of characters that mount options name. A driver asks for them by name, and where nothing loads modules on
//! demand they have to be there before.

/// Options whose value is a character set, with what stands before it in the name of the module.
const NAMING: [(&str, &str); 3] = [("iocharset=", "nls_"), ("nls=", "nls_"), ("codepage=", "nls_cp")];

/// The modules of the character sets that mount options name: names, with underscores.
pub fn modules(mount: &str) -> Vec<String> {
    let named = |option: &str| {
        NAMING.iter().find_map(|(key, module)| Some(format!("{module}{}", option.strip_prefix(key)?)))
    };
    mount.split(',').filter_map(named).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_sets_are_modules() {
        assert_eq!(modules("noatime,codepage=850,iocharset=iso8859-15"), ["nls_cp850", "nls_iso8859_15"]);
        assert_eq!(modules("nls=koi8-r"), ["nls_koi8_r"]);
        assert!(modules("noatime,data=writeback").is_empty());
    }
}
