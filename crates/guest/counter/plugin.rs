//! A QEMU plugin that counts the kernel and user instructions of a guest.
//!
//! The address of an instruction tells the two apart: x86-64 kernels run in the upper half of the address space. The
//! plugin therefore classifies code once, when QEMU translates it; executing it only adds. The guest marks the begin and
//! end of the work with a no-op instruction (`fsarena_guest::instruction_counter`). For each marked piece of work the
//! plugin writes one line to the file of the argument `out=`: user and kernel instructions until the work returned, the
//! same until its data was synced, and system calls until then.
//!
//! With the argument `hold=` it counts nothing. The mark of a hold then holds the guest until the file of that name
//! exists and QEMU waits for the guest to stop, so that the guest stops at the same instruction each time.
//!
//! This is the interface of QEMU 6 to 8 (`qemu-plugin.h`, version 1).

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::{fs::File, io::Write, sync::OnceLock, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};
use std::{os::unix::ffi::OsStrExt, path::PathBuf, time::Duration};

/// The version of the plugin interface; QEMU checks it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// The first seven bytes of a mark, which is a no-operation of eight bytes. The last byte is the kind of the mark.
const MARK: [u8; 7] = [0x0f, 0x1f, 0x84, 0x00, 0x5a, 0xa5, 0xfa];
/// The last byte of the mark at the beginning of the work.
const BEGIN: u8 = 1;
/// The last byte of the mark when the work has returned.
const RETURN: u8 = 2;
/// The last byte of the mark when the data of the work is synced.
const SYNCED: u8 = 3;
/// The last byte of the mark at which the machine is to be saved.
const HOLD: u8 = 4;
/// The pause between two checks for the file that ends a hold.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The number of these checks: after that time QEMU will never end the hold.
const MAX_POLLS: usize = 60_000;
/// The number of the system call `futex` on this kind of machine.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };
/// The extension of the file that reports a hold.
const HELD_EXTENSION: &str = "held";
/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The lowest address of the kernel.
const KERNEL_BASE: u64 = 1 << 63;
/// `QEMU_PLUGIN_INLINE_ADD_U64` and `QEMU_PLUGIN_CB_NO_REGS`.
const ADD: c_int = 0;
const NO_REGISTERS: c_int = 0;

/// Instructions since the work began: of programs, of the kernel.
static COUNTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// System calls since the work began.
static SYSTEM_CALLS: AtomicU64 = AtomicU64::new(0);
/// The counts at the moment when the work returned.
static COUNTS_AT_RETURN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The file for the counts; set by the argument `out=`.
static COUNTS_FILE: OnceLock<File> = OnceLock::new();
/// The file that ends a hold; set by the argument `hold=`.
static END_OF_HOLD: OnceLock<PathBuf> = OnceLock::new();

type Block = c_void;
type Instruction = c_void;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut Block));
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    fn qemu_plugin_register_vcpu_tb_exec_inline(
        block: *mut Block,
        op: c_int,
        to: *const AtomicU64,
        value: u64,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut Instruction,
        op: c_int,
        to: *const AtomicU64,
        value: u64,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
}

/// QEMU calls this once when it starts, and ends if it returns another value than 0.
///
/// # Safety
/// `words` has `count` arguments, each of which ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _: *const c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    for index in 0..count as usize {
        // SAFETY: there are `count` words, each of which ends with NUL.
        let word = unsafe { CStr::from_ptr(*words.add(index)) }.to_bytes();
        let path_after = |name: &[u8]| word.strip_prefix(name).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        if let Some(Ok(file)) = path_after(b"out=").map(File::create) {
            let _ = COUNTS_FILE.set(file);
        }
        if let Some(path) = path_after(b"hold=") {
            let _ = END_OF_HOLD.set(path);
        }
    }
    if COUNTS_FILE.get().is_none() && END_OF_HOLD.get().is_none() {
        return 1;
    }
    // SAFETY: `id` is from QEMU, and the callback lives as long as the program.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation) };
    0
}

/// QEMU calls this once for each block of code, when it translates it.
extern "C" fn on_translation(_: u64, block: *mut Block) {
    // SAFETY: QEMU passes a valid block, and the block has `count` instructions.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        let privilege = usize::from(qemu_plugin_tb_vaddr(block) >= KERNEL_BASE);
        if COUNTS_FILE.get().is_some() {
            qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &raw const COUNTS[privilege], count as u64);
        }
        for index in 0..count {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let size = qemu_plugin_insn_size(instruction);
            match std::slice::from_raw_parts(qemu_plugin_insn_data(instruction), size) {
                bytes if bytes == SYSCALL => {
                    qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, &raw const SYSTEM_CALLS, 1);
                }
                [start @ .., mark] if *start == MARK => {
                    let mark = *mark as usize as *mut c_void;
                    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, NO_REGISTERS, mark);
                }
                _ => {}
            }
        }
    }
}

/// Whether the main thread of QEMU waits for another thread instead of commands. After a command to stop, that is the guest.
fn waits_for_guest() -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", std::process::id()));
    // Without this file the guest stops some instructions later.
    call.map_or(true, |call| call.split(' ').next() == Some(FUTEX))
}

/// QEMU calls this at each execution of a mark.
extern "C" fn on_mark(_: c_uint, mark: *mut c_void) {
    let now = [COUNTS[0].load(Relaxed), COUNTS[1].load(Relaxed)];
    match mark as usize as u8 {
        BEGIN => {
            for count in COUNTS.iter().chain([&SYSTEM_CALLS]) {
                count.store(0, Relaxed);
            }
        }
        RETURN => {
            for (count, now) in COUNTS_AT_RETURN.iter().zip(now) {
                count.store(now, Relaxed);
            }
        }
        SYNCED => {
            let [user, kernel] = [COUNTS_AT_RETURN[0].load(Relaxed), COUNTS_AT_RETURN[1].load(Relaxed)];
            if let Some(mut out) = COUNTS_FILE.get() {
                let _ = writeln!(out, "{user} {kernel} {} {} {}", now[0], now[1], SYSTEM_CALLS.load(Relaxed));
            }
        }
        HOLD => {
            if let Some(path) = END_OF_HOLD.get() {
                let _ = File::create(path.with_extension(HELD_EXTENSION));
                for _ in 0..MAX_POLLS {
                    if path.exists() && waits_for_guest() {
                        break;
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        }
        _ => {}
    }
}
