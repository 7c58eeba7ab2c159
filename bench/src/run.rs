//! A run: every row of the suites, every candidate verified, then timed in turn.

mod facts;
#[cfg(test)]
mod tests;

use crate::candidates::cublas::{Cublas, CublasLt};
use crate::candidates::nvcc::Nvcc;
use crate::candidates::torch::{self, Torch};
use crate::candidates::trial::Trial;
use crate::candidates::{Absence, Candidate, Entrant, Peer, cpu, ours};
use crate::case::{Case, Data};
use crate::compare::LAUNCH_NOISE_US;
use crate::gpu::{Gpu, Operands, Seen, Watch};
use crate::record::{Line, Mode, Side, State};
use crate::suite::{Row, Suite};
use crate::timing::{Effort, MAX_RUNS, MORE_ROUNDS, SETTLED, Times, Work, alternate, sustain};
use anyhow::{Result, bail, ensure};
use gemmite::cuda::Reads;
use gemmite::verify::Mismatch;
use gemmite::{Element, KernelChoice, with_element};
use std::path::Path;

/// What is measured and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often.
    pub effort: Effort,
    /// Seconds without a pause for each candidate, beside the alternating samples.
    pub sustained: Option<f64>,
    /// Whether samples are taken as CUDA graphs too.
    pub graphs: bool,
    /// When products of ours read their operands.
    pub reads: Reads,
    /// What the operands hold.
    pub data: Data,
    /// The peers to compare with.
    pub peers: Vec<Peer>,
    /// Kernels of ours beside the library's choice.
    pub kernels: Vec<String>,
    /// How many plans of ours beside them, those that are predicted to be the fastest.
    pub plans: usize,
}

/// Where the candidates run.
pub enum Bench {
    /// On a GPU, with the peers that were found.
    Gpu(Box<OnGpu>),
    /// On the CPU.
    Cpu,
}

/// A GPU and the peers on it.
pub struct OnGpu {
    // Fields are dropped in this order: the libraries before the context that they work in.
    cublas: Option<Result<Cublas, Absence>>,
    cublaslt: Option<Result<CublasLt, Absence>>,
    nvcc: Option<Result<Nvcc, Absence>>,
    torch: Option<Result<Torch, Absence>>,
    trial: Option<Trial>,
    peers: Vec<Peer>,
    watch: Result<Watch>,
    gpu: Gpu,
}

impl Bench {
    /// Opens the CUDA device of that number and the peers asked for.
    pub fn on_gpu(ordinal: usize, peers: &[Peer]) -> Result<Bench> {
        let gpu = Gpu::open(ordinal)?;
        let asked = |wanted: &[Peer]| wanted.iter().any(|peer| peers.contains(peer));
        let blas = asked(&[Peer::Cublas, Peer::CublasLt]);
        let folders = if blas { torch::nvidia_folders() } else { Vec::new() };
        Ok(Bench::Gpu(Box::new(OnGpu {
            cublas: asked(&[Peer::Cublas]).then(|| Cublas::open(&gpu, &folders)),
            cublaslt: asked(&[Peer::CublasLt]).then(|| CublasLt::open(&folders)),
            nvcc: asked(&[Peer::Nvcc]).then(|| Nvcc::build(&gpu)),
            torch: asked(&[Peer::Torch, Peer::Triton]).then(|| Torch::start(ordinal)),
            trial: None,
            peers: peers.to_vec(),
            watch: Watch::new(&gpu),
            gpu,
        })))
    }

    /// Lets the kernels of a PTX module take part; see [`Trial`].
    pub fn put_on_trial(&mut self, path: &Path) -> Result<()> {
        match self {
            Bench::Gpu(on) => on.trial = Some(Trial::open(path)?),
            Bench::Cpu => bail!("{} is for a GPU", path.display()),
        }
        Ok(())
    }

    /// Says when products of ours read their operands.
    pub fn set_reads(&mut self, reads: Reads) {
        if let Bench::Gpu(on) = self {
            on.gpu.reads = reads;
        }
    }

    /// The peers that run there.
    pub fn peers(&self) -> &'static [Peer] {
        match self {
            Bench::Gpu(_) => &Peer::ON_GPU,
            Bench::Cpu => &Peer::ON_CPU,
        }
    }

    /// Why a peer that was asked for is not there.
    pub fn missing(&self) -> Vec<(Peer, String)> {
        let Bench::Gpu(on) = self else { return Vec::new() };
        let absent = on.versions().into_iter();
        absent.filter_map(|(peer, version)| Some((peer, version.err()?.reason))).collect()
    }

    /// Verifies and times every candidate on one row.
    pub fn row(&self, suite: &str, row: Row, options: &Options) -> Result<Vec<Line>> {
        with_element!(row.dtype, T => {
            let case = Case::<T>::generate(row, options.data)?;
            match self {
                Bench::Cpu => {
                    let mut entrants = vec![ours::on_cpu(&case)];
                    entrants.extend(cpu::entrants(&case, &options.peers));
                    Ok(measure(suite, &case, entrants, options, None))
                }
                Bench::Gpu(on) => {
                    let operands = Operands::new(&on.gpu, &case)?;
                    let entrants = on.entrants(&operands, &case, options);
                    Ok(measure(suite, &case, entrants, options, on.watch.as_ref().ok()))
                }
            }
        })
    }
}

impl OnGpu {
    /// Each peer that was asked for, with its version or why it is not there.
    fn versions(&self) -> Vec<(Peer, Result<String, Absence>)> {
        let mut versions = Vec::new();
        if let Some(lt) = &self.cublaslt {
            versions.push((Peer::CublasLt, version(lt, |lt| lt.version.clone())));
        }
        if let Some(cublas) = &self.cublas {
            versions.push((Peer::Cublas, version(cublas, |cublas| cublas.version.clone())));
        }
        if let Some(torch) = &self.torch {
            versions.push((Peer::Torch, version(torch, |torch| torch.torch.clone())));
            let triton = torch.as_ref().map_err(Clone::clone).and_then(|t| t.triton.clone());
            versions.push((Peer::Triton, triton));
        }
        if let Some(nvcc) = &self.nvcc {
            versions.push((Peer::Nvcc, version(nvcc, |nvcc| nvcc.version.clone())));
        }
        // torch and Triton are one process, of which one of them may have been asked for.
        versions.retain(|(peer, _)| self.peers.contains(peer));
        versions
    }

    fn entrants<'a, T: Element>(
        &'a self,
        operands: &'a Operands,
        case: &'a Case<T>,
        options: &Options,
    ) -> Vec<Entrant<'a, T>> {
        let gpu = &self.gpu;
        let mut entrants = ours::entrants(gpu, operands, case, &options.kernels, options.plans);
        if let Some(trial) = &self.trial {
            entrants.extend(trial.entrants(gpu, operands, case));
        }
        let absent = |peer: Peer, absence: &Absence| Entrant::absent(peer.name(), absence.clone());
        match &self.cublaslt {
            Some(Ok(lt)) => entrants.extend(lt.entrants(gpu, operands, case)),
            Some(Err(absence)) => entrants.push(absent(Peer::CublasLt, absence)),
            None => {}
        }
        match &self.cublas {
            Some(Ok(cublas)) => entrants.push(cublas.entrant(gpu, operands, case)),
            Some(Err(absence)) => entrants.push(absent(Peer::Cublas, absence)),
            None => {}
        }
        match &self.torch {
            Some(Ok(torch)) => entrants.extend(torch.entrants(case, &options.peers)),
            Some(Err(absence)) => {
                let both = [Peer::Torch, Peer::Triton].into_iter();
                let asked = both.filter(|peer| options.peers.contains(peer));
                entrants.extend(asked.map(|peer| absent(peer, absence)));
            }
            None => {}
        }
        match &self.nvcc {
            Some(Ok(nvcc)) => entrants.extend(nvcc.entrants(gpu, operands, case)),
            Some(Err(absence)) => entrants.push(absent(Peer::Nvcc, absence)),
            None => {}
        }
        entrants
    }
}

fn version<L>(library: &Result<L, Absence>, of: fn(&L) -> String) -> Result<String, Absence> {
    library.as_ref().map(of).map_err(Clone::clone)
}

/// A candidate on its way: its line, and itself as long as it may be timed.
struct Runner<'a, T: Element> {
    line: Line,
    candidate: Option<Box<dyn Candidate<T> + 'a>>,
}

impl<T: Element> Runner<'_, T> {
    /// Whether it is the library's choice, and cannot be timed: no other kernel of ours may stand
    /// for it, in whatever mode.
    fn is_our_absent_choice(&self) -> bool {
        self.candidate.is_none() && self.line.candidate == ours::AUTO
    }
}

/// Verifies every candidate and times those that are right.
pub fn measure<T: Element>(
    suite: &str,
    case: &Case<T>,
    entrants: Vec<Entrant<'_, T>>,
    options: &Options,
    watch: Option<&Watch>,
) -> Vec<Line> {
    let mut runners: Vec<Runner<'_, T>> =
        entrants.into_iter().map(|entrant| verified(suite, case, entrant)).collect();
    let mut lines: Vec<Line> = Vec::new();
    let sustained = options.sustained.map(|_| Mode::Sustained);
    let modes = [Some(Mode::Burst), sustained, options.graphs.then_some(Mode::Graph)];
    for mode in modes.into_iter().flatten() {
        let mut works: Vec<&mut dyn Work> = Vec::new();
        let mut takes_part = Vec::new();
        for runner in &mut runners {
            let Some(candidate) = &mut runner.candidate else {
                takes_part.push(false);
                continue;
            };
            let can_replay = candidate.replay(mode == Mode::Graph);
            takes_part.push(can_replay || mode != Mode::Graph);
            if can_replay || mode != Mode::Graph {
                works.push(candidate.as_mut());
            }
        }
        let mut time = || match (mode, options.sustained) {
            (Mode::Sustained, Some(seconds)) => sustain(&mut works, &options.effort, seconds),
            _ => alternate(&mut works, &options.effort),
        };
        let (times, seen) = match watch {
            Some(watch) => watch.during(time),
            None => (time(), Seen::default()),
        };
        let mut times = times.into_iter();
        for (runner, takes_part) in runners.iter().zip(takes_part) {
            let mut line = Line { mode, ..runner.line.clone() };
            if takes_part {
                if let Some(times) = times.next() {
                    enter(&mut line, times, &case.row, &seen);
                }
                lines.push(line);
            } else if mode == Mode::Burst || runner.is_our_absent_choice() {
                lines.push(line);
            }
        }
    }
    lines
}

/// Computes the product once and judges it: no time for what is wrong.
fn verified<'a, T: Element>(suite: &str, case: &Case<T>, entrant: Entrant<'a, T>) -> Runner<'a, T> {
    let mut line = blank(suite, &case.row, entrant.name, entrant.side);
    line.note = entrant.note;
    let mut candidate = match entrant.candidate {
        Ok(candidate) => candidate,
        Err(absence) => {
            line.state = absence.state;
            line.note = absence.reason;
            return Runner { line, candidate: None };
        }
    };
    let judged = candidate
        .product()
        .map_err(|error| (Absence::of(&error).state, error))
        .and_then(|out| case.verify(&out).map_err(|error| (State::Refused, error)));
    match judged {
        Ok(error_over_bound) => {
            line.error_over_bound = Some(significant(error_over_bound));
            Runner { line, candidate: Some(candidate) }
        }
        Err((state, error)) => {
            line.state = state;
            line.note = format!("{error:#}");
            let worst = error.downcast_ref::<Mismatch>().and_then(Mismatch::worst);
            let times = worst.and_then(|worst| worst.error_over_bound());
            line.error_over_bound = times.map(significant);
            Runner { line, candidate: None }
        }
    }
}

/// Enters what was measured.
fn enter(line: &mut Line, times: Result<Times>, row: &Row, seen: &Seen) {
    match times {
        Ok(times) => {
            let median = times.median_ms();
            line.median_ms = Some(significant(median));
            line.p10_ms = Some(significant(times.quantile_ms(0.1)));
            line.p90_ms = Some(significant(times.quantile_ms(0.9)));
            line.rounds = Some(times.rounds());
            line.runs = Some(times.runs());
            line.tflops = Some(significant(row.flop() / median / 1e9));
            line.gbps = Some(significant(row.bytes() / median / 1e6));
        }
        Err(error) => {
            line.state = State::Failed;
            line.note = format!("{error:#}");
        }
    }
    line.sm_mhz = seen.sm_mhz;
    line.temp_c = seen.temp_c;
    line.power_w = seen.power_w;
    line.throttle = seen.throttle.clone();
}

/// Five significant digits: more would only be noise in a file that is compared by eye.
fn significant(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn blank(suite: &str, row: &Row, candidate: String, side: Side) -> Line {
    let [lda, ldb, ldc] = row.leading;
    Line {
        suite: suite.to_owned(),
        dtype: row.dtype_name().to_owned(),
        layout: row.ops().to_string(),
        m: row.m,
        n: row.n,
        k: row.k,
        batch: row.batch,
        lda,
        ldb,
        ldc,
        epilogue: row.epilogue.to_string(),
        candidate,
        side,
        mode: Mode::Burst,
        state: State::Timed,
        median_ms: None,
        p10_ms: None,
        p90_ms: None,
        rounds: None,
        runs: None,
        tflops: None,
        gbps: None,
        error_over_bound: None,
        sm_mhz: None,
        temp_c: None,
        power_w: None,
        throttle: String::new(),
        note: String::new(),
    }
}

/// A row that could not be measured at all, as when its operands do not fit the GPU.
pub fn failed(suite: &str, row: &Row, error: &anyhow::Error) -> Line {
    let line = blank(suite, row, ours::AUTO.to_owned(), Side::Ours);
    Line { state: State::Failed, note: format!("{error:#}"), ..line }
}

/// The method in words, for a record.
pub fn method(options: &Options) -> Vec<String> {
    let Effort { warm_up, rounds, min_rounds, budget, min_sample } = options.effort;
    let mut lines = vec![
        format!(
            "burst: one sample of each candidate in turn, {rounds} rounds, fewer where a row takes \
             longer than {} s, at least {min_rounds}, up to {MORE_ROUNDS} times as many where a \
             spread is over {} %; {warm_up} untimed samples before; a sample holds as many runs as \
             last {} us, {MAX_RUNS} at most",
            budget.as_secs_f64(),
            100.0 * SETTLED,
            min_sample.as_micros()
        ),
        "clock on a GPU: two CUDA events around the sample, enqueued while the stream is held, so \
         that launches do not count, behind one untimed run of the candidate; on the CPU: the \
         system's monotonic clock"
            .to_owned(),
        "operands on a GPU: as many copies as outgrow its L2 cache forty times, used in turn, in \
         graphs too"
            .to_owned(),
        "verification: each candidate's product, into a poisoned C, before it is timed: sampled \
         rows against the reference, and every element written"
            .to_owned(),
        "cublaslt_first: the heuristic's first candidate; cublaslt_best: the fastest right one, by \
         the least of 5 samples, of all it offers, also of those it offers a caller who wants \
         partial sums in f32"
            .to_owned(),
        "peers run as a plain caller gets them: where one rounds partial sums to f16 or bf16 and \
         so misses the bound of docs/numerics.md, it is refused"
            .to_owned(),
        "spread: half of p90 - p10, over the median".to_owned(),
        format!(
            "times of different processes differ by up to about {LAUNCH_NOISE_US} us a launch on a \
             GPU, which no spread shows; torch and Triton run in a process of their own"
        ),
    ];
    if options.reads == Reads::AtOnce {
        let line = "at once: products of ours do not wait for the one before them to read A and B; \
                    peers' do";
        lines.push(line.to_owned());
    }
    if let Some(seconds) = options.sustained {
        lines.push(format!(
            "sustained: {seconds} s of each candidate without a pause, in two turns"
        ));
    }
    lines
}

/// The rows of a suite that take at most `max_gflop` * 10^9 operations, and how many take more.
pub fn within(suite: &Suite, max_gflop: Option<f64>) -> (Vec<Row>, usize) {
    let fits = |row: &Row| max_gflop.is_none_or(|max| row.flop() <= max * 1e9);
    let rows: Vec<Row> = suite.rows.iter().copied().filter(fits).collect();
    let left_out = suite.rows.len() - rows.len();
    (rows, left_out)
}

/// Fails where a kernel's name, without its parts of K, is not in the table.
pub fn check_kernels(kernels: &[String]) -> Result<()> {
    for name in kernels {
        let name = match KernelChoice::from(name.as_str()) {
            KernelChoice::Split { variant, .. } => variant,
            _ => name.clone(),
        };
        let known = gemm_spec::variants().any(|variant| variant == name);
        let all = || gemm_spec::variants().collect::<Vec<_>>().join(", ");
        let special = gemm_spec::purpose(&name);
        ensure!(
            special.is_none(),
            "kernel {name} is for {}, and this measures products of two operands; there are: {}",
            special.unwrap_or_default(),
            all()
        );
        ensure!(known, "no kernel is called {name}; there are: {}", all());
    }
    Ok(())
}
