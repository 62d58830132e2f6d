//! User Mode Linux on CPUs with AMX.
//!
//! Linux 6.1 as User Mode Linux reserves 2.7 KiB for the extended registers of a process. With AMX they take 11 KiB: it
//! reads a part, the kernel rejects a partial write, and its first process dies ("ptrace set fp regs failed"). If it
//! cannot read them at all, it uses the older calls, which support only x87 and SSE. A seccomp filter, which needs no
//! privilege, therefore makes these two ptrace(2) requests fail.
//!
//! A page fault then clears the AVX registers: a signal handler in the process reads the fault, the host kernel starts
//! the handler with fresh registers, and only x87 and SSE are restored. An AVX copy to untouched memory would store
//! zeros. The C library in the guest is therefore configured not to use AVX.

use libc::{c_int, sock_filter, sock_fprog};

/// `PTRACE_GETREGSET` and `PTRACE_SETREGSET`.
const REQUESTS: [u32; 2] = [0x4204, 0x4205];
/// `NT_X86_XSTATE`.
const XSTATE: u32 = 0x202;
/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xC000_003E;
// Where `struct seccomp_data` has its fields; of the arguments, which are 64 bits wide, the low halves.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const REQUEST_AT: u32 = 16;
const ADDRESS_AT: u32 = 32;
const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const ALLOW: u32 = 0x7FFF_0000;
const FAIL: u32 = 0x0005_0000 | libc::EIO as u32;

/// The environment of a guest's programs that keeps the C library from AVX; older ones have other names for it.
pub const WITHOUT_VECTORS: &str = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ,\
     -AVX2,-AVX,-XSAVEC,-AVX512F_Usable,-AVX512VL_Usable,-AVX2_Usable,-AVX_Usable,-XSAVEC_Usable,\
     -AVX_Fast_Unaligned_Load";

/// Whether this machine's CPU has registers that are too large.
pub fn is_too_large() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "amx_tile"))
}

/// Hides the extended registers from this process and all that it starts. For the time between fork and exec.
///
/// # Errors
/// Where the kernel has no filters of system calls.
pub fn hide() -> std::io::Result<()> {
    let mut program = program();
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain system calls; the filter outlives the call that copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as c_int, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn program() -> [sock_filter; 11] {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // Jumps count the steps that they leave out: on a match none, else all up to `ALLOW`.
    [
        step(LOAD, 0, 0, ARCHITECTURE_AT),
        step(IF_EQUAL, 0, 7, ARCHITECTURE),
        step(LOAD, 0, 0, NUMBER_AT),
        step(IF_EQUAL, 0, 5, libc::SYS_ptrace as u32),
        step(LOAD, 0, 0, REQUEST_AT),
        step(IF_EQUAL, 1, 0, REQUESTS[0]),
        step(IF_EQUAL, 0, 2, REQUESTS[1]),
        step(LOAD, 0, 0, ADDRESS_AT),
        step(IF_EQUAL, 1, 0, XSTATE),
        step(RETURN, 0, 0, ALLOW),
        step(RETURN, 0, 0, FAIL),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a system call, by the rules of classic BPF.
    fn verdict(number: u32, request: u32, address: u32) -> u32 {
        let field = |at| match at {
            NUMBER_AT => number,
            ARCHITECTURE_AT => ARCHITECTURE,
            REQUEST_AT => request,
            ADDRESS_AT => address,
            _ => unreachable!(),
        };
        let (program, mut at, mut loaded) = (program(), 0, 0);
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                LOAD => loaded = field(step.k),
                IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn only_these_two_requests_fail() {
        let ptrace = libc::SYS_ptrace as u32;
        assert_eq!(verdict(ptrace, 0x4204, XSTATE), FAIL);
        assert_eq!(verdict(ptrace, 0x4205, XSTATE), FAIL);
        assert_eq!(verdict(ptrace, 0x4204, 1), ALLOW);
        assert_eq!(verdict(ptrace, 12, XSTATE), ALLOW);
        assert_eq!(verdict(libc::SYS_read as u32, 0x4204, XSTATE), ALLOW);
    }
}
