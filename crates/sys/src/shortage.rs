//! Errors that a limit of this process or of the machine causes, and what the user can do about them.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;

/// The beginning of the panic message with which the standard library reports that it cannot create a thread.
pub const NO_THREAD: &str = "failed to spawn thread";
/// fsarena's message if it cannot create a thread.
pub const NO_THREADS: &str = "the system gives this process no more threads: raise the limit of processes (`ulimit -u`, \
                              pids.max of the control group), or take fewer threads";

/// The advice for an error that a limit of this process or of the machine caused; None for other errors.
pub fn remedy(error: &io::Error) -> Option<String> {
    let hard = |resource| match getrlimit(resource).maximum {
        Some(most) => format!("the hard limit is {most}"),
        None => "the limit of the whole machine is reached".into(),
    };
    Some(match Errno::from_io_error(error).unwrap_or(Errno::IO) {
        Errno::MFILE => format!(
            "too many files for one process ({}): raise it (`ulimit -Hn`, LimitNOFILE= of a service), or take fewer \
             clients or files",
            hard(Resource::Nofile)
        ),
        Errno::NFILE => "the machine has no more open files: raise fs.file-max (sysctl)".into(),
        Errno::AGAIN => format!(
            "no more processes or threads ({}): raise it (`ulimit -u`, pids.max of the control group), or take fewer \
             threads",
            hard(Resource::Nproc)
        ),
        _ if error.kind() == io::ErrorKind::FileTooLarge => "a file grew beyond the limit of file sizes of this process (`ulimit -f`), or beyond what its \
                        filesystem can hold: raise the limit (`ulimit -f unlimited`), or take a smaller --scale"
            .into(),
        _ => return None,
    })
}

/// The [`remedy`] as the end of a message (`; too many files …`); empty for errors without one.
pub fn advice(error: &io::Error) -> String {
    remedy(error).map_or(String::new(), |remedy| format!("; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_limits_have_a_remedy() {
        for (errno, words) in
            [(Errno::MFILE, "ulimit -Hn"), (Errno::FBIG, "ulimit -f"), (Errno::AGAIN, "ulimit -u")]
        {
            assert!(remedy(&errno.into()).unwrap().contains(words));
        }
        assert_eq!(remedy(&Errno::NOENT.into()), None);
        assert_eq!(remedy(&io::Error::other("x")), None);
    }
}
