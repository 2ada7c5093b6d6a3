//! The machine: what tells it from others, and how fast it is.
//!
//! Knowledge is kept per machine. Its [fingerprint](Machine::fingerprint) decides whether costs
//! were learned *here*; its [`Calibration`] gives the first prediction before anything was learned.

mod calibration;
mod cap;
mod measure;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;

pub use calibration::{BackendCost, Calibration, CalibrationError};
pub use cap::{Cap, CapError};

/// Longest text of a [`MachineRecord`], in bytes.
pub(crate) const MAX_TEXT: usize = 4096;

/// Most numbers of a [`MachineRecord`].
pub(crate) const MAX_NUMBERS: usize = 64;

/// Longest name taken from the operating system or a driver, in bytes: x86 has 48.
const MAX_NAME: usize = 96;

/// Most of `/proc/cpuinfo` that is read: with hundreds of cores it grows to megabytes.
const MAX_CPUINFO: u64 = 256 * 1024;

/// What this computer is, as far as it can be told. What cannot is `None` or `unknown`.
///
/// ```
/// use pointsman::Machine;
///
/// let machine = Machine::detect();
/// assert!(machine.cores >= 1);
/// assert_eq!(machine.fingerprint(), Machine::detect().fingerprint());
///
/// let with_gpu = Machine::detect().with_gpu("Radeon 780M", "RADV 25.1");
/// assert_ne!(machine.fingerprint(), with_gpu.fingerprint());
/// ```
///
/// Its `Display` is the description that the fingerprint is made from, a line for each fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// Instruction sets of the CPU.
    pub features: BTreeSet<Cap>,
    /// Data cache of the first level, in bytes, of one core.
    pub l1d_bytes: Option<u64>,
    /// Cache of the second level, in bytes, of one core.
    pub l2_bytes: Option<u64>,
    /// Cache of the third level, in bytes, of the cores that share it.
    pub l3_bytes: Option<u64>,
    /// Cores that this process may use: threaded variants get no more, whatever is built in.
    pub cores: usize,
    /// Operating system.
    pub os: String,
    /// Instruction set architecture of this build.
    pub arch: String,
    /// GPUs with their drivers; number N is `gpu:N`, and one that is masked is empty.
    pub gpus: Vec<String>,
    /// Why there are no more GPUs, for explanations; it does not tell machines apart.
    pub no_gpu: String,
}

impl Machine {
    /// This machine. It is looked at once per process.
    pub fn detect() -> Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(Self::read).clone()
    }

    fn read() -> Self {
        let caches = Path::new("/sys/devices/system/cpu/cpu0/cache");
        Machine {
            cpu: cpuinfo()
                .and_then(|text| cpu_model(&text))
                .unwrap_or_else(|| "unknown".into()),
            features: Cap::detected(),
            l1d_bytes: cache_bytes(caches, 1),
            l2_bytes: cache_bytes(caches, 2),
            l3_bytes: cache_bytes(caches, 3),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            os: std::env::consts::OS.into(),
            arch: std::env::consts::ARCH.into(),
            gpus: Vec::new(),
            no_gpu: String::new(),
        }
    }

    /// The same machine, with the reason why it has no more GPUs than it has.
    pub fn no_more_gpus(mut self, why: &str) -> Self {
        self.no_gpu = one_line(why);
        self
    }

    /// The same machine with one GPU more, as `gpu:N` after those it has.
    ///
    /// The driver counts: another version of it may well be another speed.
    pub fn with_gpu(mut self, name: &str, driver: &str) -> Self {
        self.gpus
            .push(format!("{}, {}", clean(name), clean(driver)));
        self
    }

    /// The same machine as if it did not have this capability. GPUs keep their numbers.
    ///
    /// ```
    /// use pointsman::{Cap, Machine};
    ///
    /// let old = Machine::detect().without(Cap::Avx2);
    /// assert!(!old.has(Cap::Avx2));
    /// ```
    pub fn without(mut self, cap: Cap) -> Self {
        if let Cap::Gpu(n) = cap
            && let Some(gpu) = self.gpus.get_mut(usize::from(n))
        {
            gpu.clear();
        }
        self.features.remove(&cap);
        self
    }

    /// Whether it has this capability.
    pub fn has(&self, cap: Cap) -> bool {
        match cap {
            Cap::Gpu(n) => self
                .gpus
                .get(usize::from(n))
                .is_some_and(|gpu| !gpu.is_empty()),
            _ => self.features.contains(&cap),
        }
    }

    /// A number that tells this machine from others: the same in every process and every build,
    /// until something changes that costs depend on.
    pub fn fingerprint(&self) -> u64 {
        fnv1a(self.to_string().as_bytes())
    }

    /// What the store keeps of this machine and its calibration.
    ///
    /// ```
    /// use pointsman::{Calibration, Machine};
    ///
    /// let calibration = Calibration::measure();
    /// let record = Machine::detect().record(&calibration);
    /// assert_eq!(Calibration::from_record(&record), Some(calibration));
    /// ```
    pub fn record(&self, calibration: &Calibration) -> MachineRecord {
        let (names, numbers) = calibration.encode();
        let mut text = String::new();
        for line in self.to_string().lines() {
            // Only a machine with dozens of GPUs is cut; its fingerprint still counts them all.
            if text.len() + line.len() + 1 + names.len() <= MAX_TEXT {
                text.push_str(line);
                text.push('\n');
            }
        }
        text.push_str(&names);
        MachineRecord {
            fingerprint: self.fingerprint(),
            text,
            numbers,
        }
    }
}

impl fmt::Display for Machine {
    // Any change here gives every machine another fingerprint, and so drops what it learned to a
    // weak prior. A test holds it to a recorded value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| b.to_string());
        let mut features: Vec<String> = self.features.iter().map(Cap::to_string).collect();
        features.sort_unstable(); // by name: the order of the enum may change
        writeln!(f, "cpu {}", clean(&self.cpu))?;
        writeln!(f, "features {}", features.join(" "))?;
        writeln!(f, "l1d {}", known(self.l1d_bytes))?;
        writeln!(f, "l2 {}", known(self.l2_bytes))?;
        writeln!(f, "l3 {}", known(self.l3_bytes))?;
        writeln!(f, "cores {}", self.cores)?;
        writeln!(f, "os {}", clean(&self.os))?;
        write!(f, "arch {}", clean(&self.arch))?;
        for (n, gpu) in self.gpus.iter().enumerate() {
            let gpu = if gpu.is_empty() { "masked" } else { gpu };
            write!(f, "\ngpu:{n} {}", one_line(gpu))?;
        }
        Ok(())
    }
}

/// What the store keeps of a machine: its description, and its calibration as numbers.
///
/// The last line of the text names the backends that the numbers belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRecord {
    /// Which machine it is: see [`Machine::fingerprint`].
    pub fingerprint: u64,
    /// The machine in words, at most 4096 bytes.
    pub text: String,
    /// Its calibration: at most 64 numbers, finite and positive.
    pub numbers: Vec<f64>,
}

fn cpuinfo() -> Option<String> {
    let file = File::open("/proc/cpuinfo").ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_CPUINFO).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The model of the CPU as Linux words it on x86, MIPS, POWER, RISC-V and Arm.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let pairs = || cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let values = |key: &'static str| {
        pairs()
            .filter(move |(k, _)| k.trim() == key)
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    };
    let named = ["model name", "cpu model", "cpu", "uarch"];
    if let Some(name) = named.iter().find_map(|key| values(key).next()) {
        return Some(clean(name));
    }
    // Arm gives numbers, and on big.LITTLE several: together they are the model.
    let implementer = values("CPU implementer").next()?;
    let parts: BTreeSet<&str> = values("CPU part").collect();
    let mut model = format!("arm {implementer}");
    for part in parts {
        let _ = write!(model, " {part}");
    }
    Some(clean(&model))
}

/// Bytes of the data cache of this level; `None` where Linux does not say.
fn cache_bytes(caches: &Path, level: u8) -> Option<u64> {
    let read = |index: u8, what: &str| {
        let path = caches.join(format!("index{index}")).join(what);
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .ok()
    };
    (0..8).find_map(|index| {
        let here =
            read(index, "level")? == level.to_string() && read(index, "type")? != "Instruction";
        if here {
            parse_size(&read(index, "size")?)
        } else {
            None
        }
    })
}

/// Reads `32K`, `1M` or a plain number of bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, text.as_bytes()[digits.len()]),
        None => (text, b'B'),
    };
    let shift = match unit {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

/// Text from outside as one line of bounded length; `unknown` if nothing is left.
fn clean(text: &str) -> String {
    let line = one_line(text);
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= MAX_NAME;
    let kept: String = line
        .char_indices()
        .take_while(fits)
        .map(|(_, c)| c)
        .collect();
    if kept.is_empty() {
        "unknown".into()
    } else {
        kept
    }
}

fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// FNV-1a with 64 bits: written here because it must never change, which the standard library
/// does not promise of its hashers.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;

    fn epyc() -> Machine {
        Machine {
            cpu: "AMD EPYC".into(),
            features: [Cap::Sse2, Cap::Fma, Cap::Avx2].into(),
            l1d_bytes: Some(32 << 10),
            l2_bytes: Some(512 << 10),
            l3_bytes: None,
            cores: 2,
            os: "linux".into(),
            arch: "x86_64".into(),
            gpus: Vec::new(),
            no_gpu: String::new(),
        }
    }

    #[test]
    fn a_fingerprint_is_the_same_in_every_build() {
        assert_eq!(fnv1a(b""), 0xCBF2_9CE4_8422_2325); // the published values of FNV-1a
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_F739_67E8);
        let text = "cpu AMD EPYC\nfeatures avx2 fma sse2\nl1d 32768\nl2 524288\nl3 unknown\n\
                    cores 2\nos linux\narch x86_64";
        assert_eq!(epyc().to_string(), text);
        assert_eq!(epyc().fingerprint(), 0xEC79_547C_5AE1_F7B7); // of that text, computed elsewhere
    }

    #[test]
    fn whatever_costs_depend_on_changes_the_fingerprint() {
        let changed: [fn(&mut Machine); 9] = [
            |m| m.cpu.push_str(" 7B13"),
            |m| m.l1d_bytes = None,
            |m| m.l2_bytes = Some(1 << 20),
            |m| m.l3_bytes = Some(32 << 20),
            |m| m.cores = 3,
            |m| m.os = "freebsd".into(),
            |m| m.arch = "x86".into(),
            |m| *m = m.clone().without(Cap::Fma),
            |m| *m = m.clone().with_gpu("A100", "550.54"),
        ];
        let mut seen = BTreeSet::from([epyc().fingerprint()]);
        for (i, change) in changed.iter().enumerate() {
            let mut other = epyc();
            change(&mut other);
            assert!(seen.insert(other.fingerprint()), "change {i} went unseen");
        }
        let newer_driver = epyc().with_gpu("A100", "560.28");
        assert!(seen.insert(newer_driver.fingerprint()));
        assert!(seen.insert(newer_driver.without(Cap::Gpu(0)).fingerprint()));
    }

    #[test]
    fn f34_a_masked_capability_is_not_there() {
        let masked = epyc().without(Cap::Avx2);
        assert!(epyc().has(Cap::Avx2) && !masked.has(Cap::Avx2) && masked.has(Cap::Fma));
        assert_eq!(masked.clone().without(Cap::Avx512f), masked);

        let two = epyc().with_gpu("a", "1").with_gpu("b", "2");
        assert!(two.has(Cap::Gpu(1)) && !two.has(Cap::Gpu(2)) && !epyc().has(Cap::Gpu(0)));
        let second = two.without(Cap::Gpu(0)).without(Cap::Gpu(9));
        assert!(!second.has(Cap::Gpu(0)) && second.has(Cap::Gpu(1)));
    }

    #[test]
    fn this_machine_is_described_without_inventions() {
        let machine = Machine::detect();
        assert_eq!(machine, Machine::detect());
        assert!(machine.cores >= 1 && machine.gpus.is_empty());
        assert!(!machine.cpu.is_empty() && !machine.cpu.contains('\n'));
        let json = serde_json::to_value(&machine).unwrap();
        assert_eq!(json["cores"], machine.cores);
    }

    #[test]
    fn the_model_is_found_in_what_each_architecture_writes() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD  EPYC 7B13\nflags\t: fpu\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("AMD EPYC 7B13"));
        let arm = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0b\n\
                   processor : 1\nCPU implementer : 0x41\nCPU part : 0xd05\nCPU part : 0xd0b\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("arm 0x41 0xd05 0xd0b"));
        assert_eq!(cpu_model("cpu\t: POWER9\n").as_deref(), Some("POWER9"));
        assert_eq!(cpu_model(""), None);
        assert_eq!(cpu_model("model name :\n"), None);
    }

    #[test]
    fn sizes_are_read_or_unknown() {
        assert_eq!(parse_size("32K"), Some(32_768));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for bad in [
            "",
            "K",
            "0K",
            "-1K",
            "12Q",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
        assert_eq!(cache_bytes(Path::new("/nonexistent"), 1), None);
    }

    #[test]
    fn p7_a_record_is_bounded_whatever_the_machine_is_called() {
        let mut machine = epyc();
        machine.cpu = "backends scalar\nbackends é".repeat(500);
        machine.os = "\u{2028}\r\n\0".into();
        for n in 0..200 {
            machine = machine.with_gpu(&"ü".repeat(1_000), &format!("{n}\nbackends gpu:0"));
        }
        let mut calibration = Calibration::measure();
        let cost = calibration.backend(Backend::Scalar).unwrap();
        calibration.set(Backend::Gpu(3), cost).unwrap();
        let record = machine.record(&calibration);
        assert!(record.text.len() <= MAX_TEXT && record.numbers.len() <= MAX_NUMBERS);
        assert!(record.text.contains("os unknown") && record.text.contains("gpu:0 ü"));
        assert_eq!(record.fingerprint, machine.fingerprint());
        assert_eq!(Calibration::from_record(&record), Some(calibration));
    }
}
