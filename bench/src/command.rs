//! What the commands that measure have in common: their options, and their tables.

use crate::candidates::Peer;
use crate::case::Data;
use crate::record::{Line, Mode, Record, Side, State};
use crate::report::summary::summaries;
use crate::run::{Bench, Options, check_kernels};
use crate::text;
use crate::timing::Effort;
use anyhow::{Context, Result, bail, ensure};
use gemmite::cuda::Reads;
use gemmite::{DeviceChoice, DeviceKind};
use std::path::PathBuf;
use std::time::Duration;

/// The options of a command that measures.
#[derive(Clone, Debug, clap::Args)]
pub struct MeasureArgs {
    /// Where: best (the first GPU, else the CPU), cpu, cuda (the first GPU) or cuda:N
    #[arg(long, default_value = "best", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Peers to compare with: cublaslt, cublas, torch, triton, nvcc on a GPU; gemm, matrixmultiply,
    /// ndarray on the CPU; none [default: all that are there]
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    pub against: Option<Vec<String>>,
    /// Kernels of ours beside the one that the library chooses
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub kernel: Vec<String>,
    /// So many other plans of ours beside it, those that are predicted to be the fastest, and how
    /// the choice stands to the best of all
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub plans: usize,
    /// Take the plans of this file of `gemmite tune` where the library chooses
    #[arg(long, value_name = "FILE")]
    pub tuning: Option<PathBuf>,
    /// Kernels on trial beside them: a PTX module that `cargo xtask sweep` made
    #[arg(long, value_name = "FILE")]
    pub ptx: Option<PathBuf>,
    /// What the operands hold: normal, uniform or integers
    #[arg(long, default_value_t, value_name = "KIND")]
    pub data: Data,
    /// The most timed samples of each candidate; up to 4 times as many where times jump
    #[arg(long, default_value_t = Effort::STANDARD.rounds, value_name = "N")]
    pub rounds: usize,
    /// Also measure each candidate for so many seconds without a pause
    #[arg(long, value_name = "SECONDS")]
    pub sustained: Option<f64>,
    /// Also measure each candidate with its runs in a CUDA graph, where it runs in this process
    #[arg(long)]
    pub graphs: bool,
    /// Let products of ours read their operands at once, which no work in the stream writes; else
    /// they wait for the product before them, as peers' do
    #[arg(long)]
    pub at_once: bool,
}

/// What a measurement on the emulator is answered.
const NO_TIMES: &str = "the emulator's times are not a GPU's, so there is nothing to measure on \
                        it: choose a GPU or the CPU with --device";

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
        let device = self.device.open()?;
        let there: &[Peer] = match device.info().kind {
            DeviceKind::Cpu => &Peer::ON_CPU,
            DeviceKind::Cuda { .. } => &Peer::ON_GPU,
            DeviceKind::Emulator { .. } => bail!("{NO_TIMES}"),
        };
        let peers = self.peers(there, device.name())?;
        let mut bench = match device.info().kind {
            DeviceKind::Cpu => {
                ensure!(self.plans == 0, "--plans are a GPU's, and this is the CPU");
                let none = self.kernel.is_empty() && self.ptx.is_none();
                ensure!(none, "--kernel and --ptx are for GPU kernels, and this is the CPU");
                ensure!(self.tuning.is_none(), "--tuning is for a GPU, and this is the CPU");
                ensure!(!self.graphs, "--graphs is for a GPU, and this is the CPU");
                ensure!(!self.at_once, "--at-once is for a GPU, and this is the CPU");
                Bench::Cpu
            }
            DeviceKind::Cuda { ordinal } => {
                // The device is that of the bench, which keeps it.
                let bench = Bench::on_gpu(ordinal, &peers)?;
                if let Some(path) = &self.tuning {
                    let named = || format!("--tuning {}", path.display());
                    device.load_tuning(path).with_context(named)?;
                }
                bench
            }
            DeviceKind::Emulator { .. } => bail!("{NO_TIMES}"),
        };
        if let Some(path) = &self.ptx {
            bench.put_on_trial(path)?;
        }
        let missing = bench.missing().into_iter().next();
        if let (Some((peer, reason)), true) = (missing, self.against.is_some()) {
            bail!("{peer} is not there: {reason}");
        }
        let standard = Effort::STANDARD;
        let min_rounds = standard.min_rounds.min(self.rounds);
        let effort = Effort { rounds: self.rounds, min_rounds, ..standard };
        let (data, sustained) = (self.data, self.sustained);
        let (graphs, kernels, plans) = (self.graphs, self.kernel.clone(), self.plans);
        let reads = if self.at_once { Reads::AtOnce } else { Reads::InOrder };
        bench.set_reads(reads);
        Ok((bench, Options { effort, sustained, graphs, reads, data, peers, kernels, plans }))
    }

    /// What a measurement has beside the usual candidates and plans, for a record.
    pub fn beside(&self) -> Vec<String> {
        // Folders are the machine's own.
        let name = |path: &PathBuf| path.file_name().map(|name| name.display().to_string());
        let tuning = self.tuning.as_ref().and_then(name).map(|name| {
            format!("tuning: where the library chooses, plans of {name}, but of batches its own")
        });
        let trial = self.ptx.as_ref().and_then(name).map(|name| format!("on trial: {name}"));
        let kernels =
            (!self.kernel.is_empty()).then(|| format!("beside: {}", self.kernel.join(" ")));
        let plans = (self.plans > 0).then(|| format!("beside: {} other plans of ours", self.plans));
        [tuning, trial, kernels, plans].into_iter().flatten().collect()
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
                _ if name == "none" => bail!("--against none: none stands alone"),
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
    let mut tables = Vec::new();
    let modes =
        [(Mode::Burst, "candidate"), (Mode::Sustained, "sustained"), (Mode::Graph, "as a graph")];
    for (mode, title) in modes {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.mode == mode).collect();
        if lines.is_empty() {
            continue;
        }
        let ours = lines.iter().find(|line| line.side == Side::Ours).and_then(|l| l.median_ms);
        let head = [title, "median", "spread", "speed", "traffic", "gemmite is", "error/bound"];
        let mut cells = vec![head.map(String::from).to_vec()];
        cells.extend(lines.iter().map(|line| table_row(line, ours)));
        let notes = std::iter::once("").chain(lines.iter().map(|line| line.note.as_str()));
        let text = text::table(1, &cells);
        let rows = text.lines().zip(notes).map(|(row, note)| format!("{row}  {note}"));
        tables.push(rows.map(|row| row.trim_end().to_owned() + "\n").collect::<String>());
    }
    tables.concat()
}

/// The cells of a line, without its note.
fn table_row(line: &Line, ours: Option<f64>) -> Vec<String> {
    let (Some(median), State::Timed) = (line.median_ms, line.state) else {
        let state = format!("{:?}", line.state).to_lowercase();
        return vec![line.candidate.clone(), state];
    };
    let relative = match ours {
        Some(ours) if line.side == Side::Peer => format!("{:.3} x", median / ours),
        _ => String::new(),
    };
    let rate = |tflops: f64| text::rate(&line.dtype, tflops * 1e12);
    vec![
        line.candidate.clone(),
        text::duration(Duration::from_secs_f64(median / 1e3)),
        format!("{:.1} %", line.spread().unwrap_or(0.0) * 100.0),
        line.tflops.map_or(String::new(), rate),
        line.gbps.map_or(String::new(), |gbps| format!("{} GB/s", text::three_digits(gbps))),
        relative,
        line.error_over_bound.map_or(String::new(), |error| format!("{error:.3}")),
    ]
}

/// A line for each suite: how ours stands to the fastest peer of each row; and one for each where
/// there are other plans of ours, how the library's choice stands to the fastest of them.
pub fn summary(record: &Record) -> String {
    let [of_peers, of_ours] = [against_peers(record), against_ours(record)];
    if of_ours.is_empty() { of_peers } else { of_peers + "\n" + &of_ours }
}

fn against_ours(record: &Record) -> String {
    let head = ["suite", "worst choice", "rows", "of our best, on average", "at worst"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for suite in summaries(record) {
        let Some(choice) = suite.choice else { continue };
        let mode = suite.mode.suffix().trim_start_matches(',');
        cells.push(vec![
            suite.suite + mode,
            choice.worst.ours.problem(),
            choice.rows.to_string(),
            format!("{:.3} x", choice.mean),
            format!("{:.3} x {}", choice.worst.ratio(), choice.worst.peer.candidate),
        ]);
    }
    if cells.len() == 1 { String::new() } else { text::table(2, &cells) }
}

fn against_peers(record: &Record) -> String {
    let head =
        ["suite", "worst row", "rows", "won", "lost", "geometric mean", "at the roofs", "worst"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for suite in summaries(record) {
        let (Some(mean), Some(worst)) = (suite.against_fastest, &suite.worst) else {
            cells.push(vec![suite.suite, "no row with a time of ours and of a peer".into()]);
            continue;
        };
        let mode = suite.mode.suffix().trim_start_matches(',');
        cells.push(vec![
            suite.suite + mode,
            worst.ours.problem(),
            suite.compared.to_string(),
            suite.wins.to_string(),
            suite.losses.to_string(),
            format!("{mean:.3} x"),
            suite.at_roofs.map_or(String::new(), |mean| format!("{mean:.3} x")),
            format!("{:.3} x {}", worst.ratio(), worst.peer.candidate),
        ]);
    }
    text::table(2, &cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Bench;
    use crate::suite::Row;

    fn args(against: Option<&[&str]>) -> MeasureArgs {
        let against = against.map(|names| names.iter().map(ToString::to_string).collect());
        MeasureArgs {
            device: DeviceChoice::Cpu,
            against,
            tuning: None,
            ptx: None,
            kernel: Vec::new(),
            plans: 0,
            data: Data::Normal,
            rounds: 2,
            sustained: None,
            graphs: false,
            at_once: false,
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
        assert!(error(args(Some(&["none", "gemm"]))).contains("none stands alone"));
        assert!(error(MeasureArgs { kernel: vec!["k9".into()], ..args(None) }).contains("k9"));
        let kernel = vec!["k01_naive".into()];
        assert!(error(MeasureArgs { kernel, ..args(None) }).contains("CPU"));
        assert!(error(MeasureArgs { plans: 3, ..args(None) }).contains("--plans"));
        let tuning = Some(PathBuf::from("tuning.txt"));
        assert!(error(MeasureArgs { tuning, ..args(None) }).contains("--tuning"));
        assert!(error(MeasureArgs { graphs: true, ..args(None) }).contains("--graphs"));
        assert!(error(MeasureArgs { at_once: true, ..args(None) }).contains("--at-once"));
        assert!(error(MeasureArgs { rounds: 0, ..args(None) }).contains("--rounds"));
        let sustained = Some(f64::NAN);
        assert!(error(MeasureArgs { sustained, ..args(None) }).contains("--sustained"));
    }

    #[test]
    fn a_table_has_a_line_for_each_candidate() {
        let (bench, options) = args(Some(&["ndarray"])).open().unwrap();
        let row = Row::new(gemmite::DType::F16, "nn".parse().unwrap(), [8, 8, 8]).unwrap();
        let measured = bench.row("test", row, &options).unwrap();
        let table = table(&measured);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with("gemmite ") && lines[1].contains("FLOP/s"), "{table}");
        let record = Record { facts: Vec::new(), lines: measured };
        assert!(summary(&record).contains("no row with a time of ours"), "{}", summary(&record));
        assert!(lines[2].contains("unsupported  the crate has no product of f16"), "{table}");
    }
}
