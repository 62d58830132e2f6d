//! The kernel's symbols, from /proc/kallsyms.

use crate::trace::{Unavailable, layer::bare};
use fsarena_sys::kernel::SysRoot;

/// Where the kernel lists them.
const KALLSYMS: &str = "proc/kallsyms";

/// Names of the kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Ascending, one name an address.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the list of the running kernel, loaded modules included.
    ///
    /// # Errors
    /// Where it is not there, or all its addresses are hidden.
    pub fn read(kernel: &SysRoot) -> Result<Symbols, Unavailable> {
        let symbols = Symbols::parse(&kernel.read(KALLSYMS).unwrap_or_default());
        if symbols.functions.is_empty() {
            let restrict = kernel.fact("proc/sys/kernel/kptr_restrict").unwrap_or_else(|| "unknown".into());
            return Err(Unavailable::NoSymbols { path: kernel.path(KALLSYMS), restrict });
        }
        Ok(symbols)
    }

    /// Reads lines such as `ffffffff817a81e0 t ext4_file_write_iter` or, for a module's, `… [xfs]` at the
    /// end. Skips symbols that are not functions, and hidden ones (an address of zeros).
    pub fn parse(text: &str) -> Symbols {
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|function| (function.0, rank(function)));
        functions.dedup_by_key(|(address, ..)| *address);
        Symbols {
            functions: functions.into_iter().map(|(address, _, name)| (address, bare(name).into())).collect(),
        }
    }

    /// The function that an address lies in: the last that begins at or before it.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        Some(self.functions[after.checked_sub(1)?].1.as_str())
    }
}

fn function(line: &str) -> Option<(u64, char, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?.chars().next()?;
    let name = words.next()?;
    // Text symbols, weak ones included.
    (address != 0 && matches!(kind, 't' | 'T' | 'w' | 'W')).then_some((address, kind, name))
}

/// The sort key by which the plainest of several names of one address comes first: not weak, few leading underscores.
fn rank(&(_, kind, name): &(u64, char, &str)) -> (bool, usize, usize) {
    let underscores = name.len() - name.trim_start_matches('_').len();
    (matches!(kind, 'w' | 'W'), underscores, name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000000 T _stext\n\
        ffffffff81000000 T startup\n\
        ffffffff81000100 D some_data\n\
        ffffffff821fd330 T down_read\n\
        ffffffff817a81e0 t ext4_file_write_iter\n\
        ffffffff821fbb40 t __mutex_lock.constprop.0\n\
        ffffffffc0200000 t helper\t[some_fs]\n\
        ffffffff817a9000 W weak_one\n\
        ffffffff817a9000 t the_real_one\n\
        this line is not one of them\n\
        ffff\n";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Symbols::parse(LIST);
        assert_eq!(symbols.name(0xffff_ffff_817a_81e0), Some("ext4_file_write_iter"));
        assert_eq!(symbols.name(0xffff_ffff_817a_82ff), Some("ext4_file_write_iter"));
        assert_eq!(symbols.name(0xffff_ffff_821f_bb44), Some("__mutex_lock"));
        assert_eq!(symbols.name(0xffff_ffff_c020_0010), Some("helper"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0180), Some("startup"), "data symbols are skipped");
        assert_eq!(symbols.name(0x1000), None);
    }

    #[test]
    fn of_several_names_the_plain_one_is_taken() {
        let symbols = Symbols::parse(LIST);
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), Some("startup"));
        assert_eq!(symbols.name(0xffff_ffff_817a_9000), Some("the_real_one"));
    }

    #[test]
    fn hidden_addresses_are_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(dir.path().join(KALLSYMS), "0000000000000000 T _stext\n0000000000000000 T vfs_read\n")
            .unwrap();
        std::fs::write(dir.path().join("proc/sys/kernel/kptr_restrict"), "2\n").unwrap();
        let error = Symbols::read(&SysRoot::at(dir.path())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("kptr_restrict is 2") && text.contains("sysctl kernel.kptr_restrict=1"),
            "{text}"
        );
    }
}
