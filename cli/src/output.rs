//! Output files that appear whole or not at all.
//!
//! The bytes go to a temporary file in the output's folder, which takes the output's name when it
//! is complete. An error deletes it when it is dropped; Ctrl-C, a terminal that closes and a plain
//! `kill` delete it through a signal handler, because a process that a signal ends drops nothing.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use gemmite::{Element, Matrix};
use tempfile::NamedTempFile;

use crate::npy;

/// The temporary file that exists just now, for the signal handler.
static PENDING: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A path to which a result will be written.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    overwrite: bool,
}

impl Output {
    /// Checks, before any work is done, that a file can be made at `path`: its folder is there and
    /// takes files, and nothing is lost.
    pub fn new(path: &Path, overwrite: bool) -> Result<Self> {
        let context = || format!("cannot write {}", path.display());
        Self::resolve(path, overwrite).with_context(context)
    }

    fn resolve(path: &Path, overwrite: bool) -> Result<Self> {
        // Behind a symbolic link it is the file that is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => bail!("it is a directory"),
            // A rename would put a file in the place of a device or a pipe.
            Ok(found) if !found.is_file() => bail!("it is no regular file"),
            Ok(_) => ensure!(overwrite, "it exists already; --force overwrites it"),
            Err(error) => {
                let folder = folder(&path);
                ensure!(folder.is_dir(), "the folder {} does not exist", folder.display());
                // Among others, the name is too long.
                ensure!(error.kind() == ErrorKind::NotFound, "{error}");
            }
        }
        let folder = folder(&path);
        tempfile::tempfile_in(folder).map_err(|error| unmade(folder, &error))?;
        Ok(Output { path, overwrite })
    }

    /// Writes `matrix` as .npy.
    pub fn write<T: Element>(&self, matrix: &Matrix<T>) -> Result<()> {
        self.write_with(|writer| Ok(npy::write(writer, matrix)?))
    }

    /// Writes what `contents` writes.
    pub fn write_with(
        &self,
        contents: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
    ) -> Result<()> {
        self.try_write(contents).with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn try_write(
        &self,
        contents: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
    ) -> Result<()> {
        let mut file = Pending::create(folder(&self.path))?;
        let mut writer = BufWriter::new(file.0.as_file_mut());
        contents(&mut writer)?;
        writer.flush()?;
        drop(writer);
        file.0.as_file().sync_all()?;
        file.persist(self)
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Why there is no temporary file, without its name, which is nobody's.
fn unmade(folder: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("no file can be made in {}: {}", folder.display(), error.kind())
}

/// A temporary file that the signal handler knows of.
struct Pending(NamedTempFile);

impl Pending {
    fn create(folder: &Path) -> Result<Self> {
        install_handler()?;
        // Locked until the path is there: the handler runs before the file exists, or knows it.
        let mut pending = pending();
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gemmite-").suffix(".tmp");
        #[cfg(unix)]
        {
            // What any program's new file has; the umask takes from it. tempfile's own choice is
            // 0600.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(Permissions::from_mode(0o666));
        }
        let made = builder.tempfile_in(folder);
        let file = made.map_err(|error| unmade(folder, &error))?;
        *pending = Some(file.path().to_owned());
        Ok(Pending(file))
    }

    fn persist(self, output: &Output) -> Result<()> {
        let mut pending = pending();
        if output.overwrite {
            // A file that others may not read stays one.
            if let Ok(old) = output.path.metadata() {
                self.0.as_file().set_permissions(old.permissions())?;
            }
            self.0.persist(&output.path)?;
        } else {
            // Fails where the file has come into being since the check.
            self.0.persist_noclobber(&output.path)?;
        }
        *pending = None;
        Ok(())
    }
}

fn pending() -> MutexGuard<'static, Option<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before the first temporary file there is nothing to clean up, and signals act as they always do.
fn install_handler() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        result = ctrlc::set_handler(|| {
            // Kept locked to the end, so that no further file is made.
            let pending = pending();
            if let Some(path) = &*pending {
                let _ = std::fs::remove_file(path);
            }
            // 128 + SIGINT, as shells report it.
            std::process::exit(130);
        });
    });
    result.context("no signal handler could be installed")
}
