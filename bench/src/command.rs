//! What the commands that measure have in common: their options, and their tables.

use crate::candidates::Peer;
use crate::case::Data;
use crate::record::{Line, Mode, Side, State};
use crate::run::{Bench, Options, check_kernels};
use crate::timing::Effort;
use anyhow::{Result, bail, ensure};
use std::fmt::Write as _;
use std::str::FromStr;

/// The options of a command that measures.
#[derive(Clone, Debug, clap::Args)]
pub struct MeasureArgs {
    /// Where: best (the first GPU, else the CPU), cpu, cuda (the first GPU) or cuda:N
    #[arg(long, default_value = "best", value_name = "DEVICE")]
    pub device: Place,
    /// Peers to compare with: cublaslt, cublas, torch, triton, nvcc on a GPU; gemm, matrixmultiply,
    /// ndarray on the CPU; none [default: all that are there]
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    pub against: Option<Vec<String>>,
    /// Kernels of ours beside the one that the library chooses
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub kernel: Vec<String>,
    /// What the operands hold: normal, uniform or integers
    #[arg(long, default_value_t, value_name = "KIND")]
    pub data: Data,
    /// The most timed samples of each candidate
    #[arg(long, default_value_t = Effort::STANDARD.rounds, value_name = "N")]
    pub rounds: usize,
    /// Also measure each candidate for so many seconds without a pause
    #[arg(long, value_name = "SECONDS")]
    pub sustained: Option<f64>,
}

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first GPU, else the CPU.
    Best,
    /// The CPU.
    Cpu,
    /// This GPU.
    Cuda(usize),
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "best" => Ok(Place::Best),
            None if text == "cpu" => Ok(Place::Cpu),
            None if text == "cuda" => Ok(Place::Cuda(0)),
            Some(("cuda", number)) => number.parse().map(Place::Cuda).map_err(|_| "no number"),
            _ => Err("expected best, cpu, cuda or cuda:N, as in cuda:1"),
        }
    }
}

impl MeasureArgs {
    /// Opens the device and the peers.
    ///
    /// # Errors
    /// When the device does not open, or a peer or a kernel asked for by name is not there.
    pub fn open(&self) -> Result<(Bench, Options)> {
        check_kernels(&self.kernel)?;
        ensure!(self.rounds > 0, "--rounds: at least 1");
        if let Some(seconds) = self.sustained {
            let fine = (0.01..=3600.0).contains(&seconds);
            ensure!(fine, "--sustained: from 0.01 to 3600 seconds");
        }
        let device = match self.device {
            Place::Best => gemmite::Device::best(),
            Place::Cpu => gemmite::Device::cpu(),
            Place::Cuda(ordinal) => gemmite::Device::cuda(ordinal)?,
        };
        let there: &[Peer] = match device.info().kind {
            gemmite::DeviceKind::Cpu => &Peer::ON_CPU,
            gemmite::DeviceKind::Cuda { .. } => &Peer::ON_GPU,
        };
        let peers = self.peers(there, device.name())?;
        let bench = match device.info().kind {
            gemmite::DeviceKind::Cpu => {
                ensure!(self.kernel.is_empty(), "--kernel names GPU kernels, and this is the CPU");
                Bench::Cpu
            }
            gemmite::DeviceKind::Cuda { ordinal } => Bench::on_gpu(ordinal, &peers)?,
        };
        if self.against.is_some() {
            for (peer, reason) in bench.missing() {
                bail!("{peer} is not there: {reason}");
            }
        }
        let standard = Effort::STANDARD;
        let min_rounds = standard.min_rounds.min(self.rounds);
        let effort = Effort { rounds: self.rounds, min_rounds, ..standard };
        let (data, sustained) = (self.data, self.sustained);
        Ok((bench, Options { effort, sustained, data, peers, kernels: self.kernel.clone() }))
    }

    fn peers(&self, there: &[Peer], device: &str) -> Result<Vec<Peer>> {
        let Some(asked) = &self.against else { return Ok(there.to_vec()) };
        if asked.iter().map(String::as_str).eq(["none"]) {
            return Ok(Vec::new());
        }
        let peer = |name: &String| {
            let names: Vec<&str> = there.iter().map(|peer| peer.name()).collect();
            let names = names.join(", ");
            match name.parse::<Peer>() {
                Ok(peer) if there.contains(&peer) => Ok(peer),
                Ok(peer) => bail!("--against {peer}: it does not run on {device}; {names} do"),
                Err(_) => bail!("--against {name}: expected none, or some of {names}"),
            }
        };
        asked.iter().map(peer).collect()
    }
}

/// The candidates of one row as a table: time, spread, speed, and the speed of the library's choice
/// relative to each.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let width = lines.iter().map(|line| line.candidate.len()).max().unwrap_or(0).max(9);
    for mode in [Mode::Burst, Mode::Sustained] {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.mode == mode).collect();
        if lines.is_empty() {
            continue;
        }
        let title = if mode == Mode::Burst { "candidate" } else { "sustained" };
        let _ = writeln!(
            text,
            "{title:<width$}       median  spread    TFLOP/s      GB/s  gemmite is  error/bound"
        );
        let ours = lines.iter().find(|line| line.side == Side::Ours).and_then(|l| l.median_ms);
        for line in lines {
            let _ = writeln!(text, "{}", table_row(line, ours, width).trim_end());
        }
    }
    text
}

fn table_row(line: &Line, ours: Option<f64>, width: usize) -> String {
    let Line { candidate, note, .. } = line;
    let (Some(median), State::Timed) = (line.median_ms, line.state) else {
        let state = format!("{:?}", line.state).to_lowercase();
        return format!("{candidate:<width$}  {state}: {note}");
    };
    let relative = match ours.map(|ours| median / ours) {
        _ if line.side == Side::Ours => String::new(),
        Some(speed) => format!("{speed:.3} x"),
        None => String::new(),
    };
    format!(
        "{candidate:<width$}  {:>11} {:>6.1}% {:>10.3} {:>9.1} {relative:>11} {:>12.3}  {note}",
        time(median),
        line.spread().unwrap_or(0.0) * 100.0,
        line.tflops.unwrap_or(0.0),
        line.gbps.unwrap_or(0.0),
        line.error_over_bound.unwrap_or(f64::NAN),
    )
}

/// Milliseconds with a unit that suits them.
pub fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{:.3} s", ms / 1e3),
        ms if ms >= 1.0 => format!("{ms:.3} ms"),
        ms => format!("{:.2} us", ms * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Bench;
    use crate::suite::Row;

    fn args(against: Option<&[&str]>) -> MeasureArgs {
        let against = against.map(|names| names.iter().map(ToString::to_string).collect());
        MeasureArgs {
            device: Place::Cpu,
            against,
            kernel: Vec::new(),
            data: Data::Normal,
            rounds: 2,
            sustained: None,
        }
    }

    #[test]
    fn options_are_taken_or_refused() {
        let (bench, options) = args(None).open().unwrap();
        assert!(matches!(bench, Bench::Cpu));
        assert_eq!(options.peers, Peer::ON_CPU);
        assert_eq!((options.effort.rounds, options.effort.min_rounds), (2, 2));
        assert_eq!(args(Some(&["none"])).open().unwrap().1.peers, []);
        assert_eq!(args(Some(&["ndarray"])).open().unwrap().1.peers, [Peer::Ndarray]);
        let error = |args: MeasureArgs| format!("{:#}", args.open().err().unwrap());
        assert!(error(args(Some(&["cublas"]))).contains("does not run on"));
        assert!(error(args(Some(&["blas"]))).contains("matrixmultiply"));
        assert!(error(MeasureArgs { kernel: vec!["k9".into()], ..args(None) }).contains("k9"));
        let kernel = vec!["k01_naive".into()];
        assert!(error(MeasureArgs { kernel, ..args(None) }).contains("CPU"));
        assert!(error(MeasureArgs { rounds: 0, ..args(None) }).contains("--rounds"));
        let sustained = Some(f64::NAN);
        assert!(error(MeasureArgs { sustained, ..args(None) }).contains("--sustained"));
    }

    #[test]
    fn places_are_read() {
        assert_eq!("cuda:3".parse(), Ok(Place::Cuda(3)));
        assert_eq!("cuda".parse(), Ok(Place::Cuda(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "best:1"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_candidate() {
        let (bench, options) = args(Some(&["ndarray"])).open().unwrap();
        let row = Row::new(gemmite::DType::F16, "nn".parse().unwrap(), [8, 8, 8]).unwrap();
        let lines = bench.row("test", row, &options).unwrap();
        let table = table(&lines);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with("gemmite ") && lines[1].contains(" us "), "{table}");
        assert!(lines[2].contains("unsupported: the crate has no product of f16"), "{table}");
    }

    #[test]
    fn times_have_units() {
        assert_eq!([time(0.00512), time(2.5), time(1234.0)], ["5.12 us", "2.500 ms", "1.234 s"]);
    }
}
