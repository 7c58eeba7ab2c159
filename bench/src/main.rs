//! `gemmite-bench`: measures on the GPU of this machine and writes a record file.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use gemmite_bench::record::{self, Environment};
use gemmite_bench::twins;
use std::path::PathBuf;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// k01 and k02 against the same kernels in CUDA C++
    Twins {
        /// bench/peers/twins.cu, built: `nvcc -O3 -arch=sm_90 -cubin -o twins.cubin
        /// bench/peers/twins.cu`
        #[arg(long)]
        peers: PathBuf,
        /// Rows and columns of the matrices
        #[arg(long, default_value_t = 4096)]
        n: usize,
        /// Timed runs of each candidate
        #[arg(long, default_value_t = 30)]
        rounds: usize,
        /// Folder of the record files
        #[arg(long, default_value = "bench/record")]
        records: PathBuf,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let context = cust::quick_init().context("no CUDA device: this program measures on a GPU")?;
    let environment = Environment::read(cust::context::CurrentContext::get_device()?)?;
    match arguments.suite {
        Suite::Twins { peers, n, rounds, records } => {
            let settings = twins::Settings { n, rounds, verified_rows: 64 };
            let rows = twins::run(&peers, &settings)?;
            let text = record::csv(&environment, &twins::method(&settings), &rows);
            let path = environment.path(&records, "twins");
            record::write(&path, &text)?;
            print!("{text}");
            println!("written to {}", path.display());
        }
    }
    drop(context);
    Ok(())
}
