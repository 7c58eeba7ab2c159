//! torch.matmul and a Triton product, in a Python process of their own (bench/peers/torch_peer.py)
//! that gets the same operands through files.

use super::{Absence, Candidate, Entrant, Peer};
use crate::case::Case;
use crate::suite::Row;
use crate::timing::Work;
use anyhow::{Context, Result, bail};
use gemmite::{Element, Precision};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const PROGRAM: &str = include_str!("../../peers/torch_peer.py");

/// Names the Python that has torch, instead of `python3`.
const PYTHON: &str = "GEMMITE_PYTHON";

fn python() -> Command {
    Command::new(std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into()))
}

/// The folders of NVIDIA's libraries among Python's packages; none where there is no Python.
pub fn nvidia_folders() -> Vec<PathBuf> {
    const LIST: &str = "import glob, nvidia\n\
                        for p in nvidia.__path__:\n    print(*glob.glob(p + '/*/lib'), sep='\\n')";
    let Ok(output) = python().args(["-c", LIST]).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

/// The Python process.
pub struct Torch {
    worker: RefCell<Worker>,
    /// torch's version.
    pub torch: String,
    /// Triton's version, or why it is not there.
    pub triton: Result<String, Absence>,
}

struct Worker {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where operands and results travel: memory first, where the system has it as a folder.
    folders: Vec<tempfile::TempDir>,
    /// Which of them has room for the case that is loaded.
    used: usize,
}

impl Torch {
    /// Starts Python, for the CUDA device of that number.
    pub fn start(ordinal: usize) -> Result<Torch, Absence> {
        let mut worker = match Worker::start() {
            Ok(worker) => worker,
            Err(error) => return Err(Absence::missing(format!("{error:#}"))),
        };
        let hello = worker.ask(&json!({ "op": "hello", "device": ordinal }));
        let hello = hello.map_err(|error| Absence::missing(format!("{error:#}")))?;
        let text = |key: &str| hello[key].as_str().map(ToOwned::to_owned);
        if let Some(reason) = text("missing") {
            return Err(Absence::missing(format!("Python: {reason} ({PYTHON} names another)")));
        }
        let triton = text("triton").ok_or_else(|| {
            Absence::missing(format!("Python: {}", text("triton_missing").unwrap_or_default()))
        });
        Ok(Torch { worker: RefCell::new(worker), torch: text("torch").unwrap_or_default(), triton })
    }

    /// `torch` and `triton`, as far as `peers` asks for them.
    pub fn entrants<'a, T: Element>(
        &'a self,
        case: &'a Case<T>,
        peers: &[Peer],
    ) -> Vec<Entrant<'a, T>> {
        let asked: Vec<Peer> =
            [Peer::Torch, Peer::Triton].into_iter().filter(|peer| peers.contains(peer)).collect();
        let unasked = match case.row {
            row if row.precision == Precision::Tf32 => {
                Some("f32 is multiplied with all of its digits here; its tf32 is cuBLAS's")
            }
            row if row.epilogue.is_fused() => Some("its epilogues are kernels of their own"),
            _ => None,
        };
        if let Some(reason) = unasked {
            let absent = |peer: Peer| Entrant::absent(peer.name(), Absence::unsupported(reason));
            return asked.into_iter().map(absent).collect();
        }
        let loaded = match Loaded::new(self, case) {
            Ok(loaded) => Rc::new(loaded),
            Err(error) => {
                let absent = |peer: Peer| Entrant::absent(peer.name(), Absence::of(&error));
                return asked.into_iter().map(absent).collect();
            }
        };
        let entrant = |peer: Peer| match (peer, &self.triton) {
            (Peer::Triton, Err(absence)) => Entrant::absent(peer.name(), absence.clone()),
            _ => self.entrant(peer, &loaded),
        };
        asked.into_iter().map(entrant).collect()
    }

    fn entrant<'a, T: Element>(&self, peer: Peer, loaded: &Rc<Loaded<'a, T>>) -> Entrant<'a, T> {
        // The first product compiles and tunes, or says that there is none.
        let out = loaded.torch.worker.borrow().path("c");
        let request = json!({ "op": "product", "candidate": peer.name(), "out": out });
        match loaded.torch.worker.borrow_mut().ask(&request) {
            Ok(answer) if answer["unsupported"].is_string() => {
                let reason = answer["unsupported"].as_str().unwrap_or_default();
                Entrant::absent(peer.name(), Absence::unsupported(reason))
            }
            Ok(answer) => {
                let note = answer["note"].as_str().unwrap_or_default().to_owned();
                Entrant::peer(peer.name(), note, PythonWork { loaded: Rc::clone(loaded), peer })
            }
            Err(error) => Entrant::absent(peer.name(), Absence::of(&error)),
        }
    }
}

impl Worker {
    fn start() -> Result<Worker> {
        let folder = |at: &Path| tempfile::Builder::new().prefix("gemmite-").tempdir_in(at);
        let on_disk = folder(&std::env::temp_dir())?;
        let program = on_disk.path().join("torch_peer.py");
        std::fs::write(&program, PROGRAM)?;
        let mut process = python()
            .arg("-u")
            .arg(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("Python does not start")?;
        let requests = process.stdin.take().context("no pipe")?;
        let answers = BufReader::new(process.stdout.take().context("no pipe")?);
        let in_memory = folder(Path::new("/dev/shm")).ok();
        let folders = in_memory.into_iter().chain([on_disk]).collect();
        Ok(Worker { process, requests, answers, folders, used: 0 })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folders[self.used].path().join(name)
    }

    /// Writes operands into the first folder that has room for all of them.
    fn write(&mut self, operands: [(&str, &[u8]); 3]) -> Result<[PathBuf; 3]> {
        let mut full = None;
        for used in 0..self.folders.len() {
            self.used = used;
            let paths = operands.map(|(name, _)| self.path(name));
            let mut files = paths.iter().zip(operands);
            match files.try_for_each(|(path, (_, bytes))| std::fs::write(path, bytes)) {
                Ok(()) => return Ok(paths),
                Err(error) => full = Some(error),
            }
            // What was written of them takes room from everybody else.
            paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
        Err(full.context("no folder")?).context("writing the operands for Python")
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.requests, "{request}").context("Python has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("Python has ended ({})", self.process.wait()?);
        }
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("Python said: {line}"))?;
        match answer["error"].as_str() {
            Some(error) => bail!("Python: {error}"),
            None => Ok(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends with its input; where it hangs, the run is over all the same.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A case that the Python process holds.
struct Loaded<'a, T: Element> {
    torch: &'a Torch,
    case: &'a Case<T>,
}

impl<'a, T: Element> Loaded<'a, T> {
    fn new(torch: &'a Torch, case: &'a Case<T>) -> Result<Self> {
        let mut worker = torch.worker.borrow_mut();
        let [a, b] = [&case.a, &case.b].map(|data| bytemuck::cast_slice::<T, u8>(data));
        let paths = worker.write([("a", a), ("b", b), ("c0", bytemuck::cast_slice(&case.c))])?;
        let Row { m, n, k, batch, leading: [lda, ldb, ldc], epilogue, .. } = case.row;
        let [a, b, c] = &paths;
        let request = json!({
            "op": "case", "dtype": T::DTYPE.name(), "output": T::DTYPE.output().name(),
            "precision": case.row.precision.name(T::DTYPE),
            "layout": case.row.ops().to_string(),
            "m": m, "n": n, "k": k, "batch": batch, "lda": lda, "ldb": ldb, "ldc": ldc,
            "alpha": epilogue.alpha, "beta": epilogue.beta, "a": a, "b": b, "c": c,
        });
        let loaded = worker.ask(&request);
        for path in &paths {
            std::fs::remove_file(path)?;
        }
        loaded?;
        Ok(Loaded { torch, case })
    }
}

impl<T: Element> Drop for Loaded<'_, T> {
    fn drop(&mut self) {
        // Frees the GPU's memory for the next row; an error would show there.
        drop(self.torch.worker.borrow_mut().ask(&json!({ "op": "drop" })));
    }
}

struct PythonWork<'a, T: Element> {
    loaded: Rc<Loaded<'a, T>>,
    peer: Peer,
}

impl<T: Element> Work for PythonWork<'_, T> {
    fn sample(&mut self, runs: u32) -> Result<Duration> {
        let request = json!({ "op": "sample", "candidate": self.peer.name(), "runs": runs });
        let answer = self.loaded.torch.worker.borrow_mut().ask(&request)?;
        let ms = answer["ms"].as_f64().context("Python told no time")?;
        Ok(Duration::from_secs_f64(ms / 1e3))
    }
}

impl<T: Element> Candidate<T> for PythonWork<'_, T> {
    fn product(&mut self) -> Result<Vec<T::Output>> {
        let mut worker = self.loaded.torch.worker.borrow_mut();
        let out = worker.path("c");
        worker.ask(&json!({ "op": "product", "candidate": self.peer.name(), "out": out }))?;
        let bytes = std::fs::read(&out)?;
        std::fs::remove_file(&out)?;
        anyhow::ensure!(bytes.len() == size_of_val(&self.loaded.case.c[..]), "C's size is wrong");
        let mut elements = self.loaded.case.c.clone();
        bytemuck::cast_slice_mut(&mut elements).copy_from_slice(&bytes);
        Ok(elements)
    }
}
