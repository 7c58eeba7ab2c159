//! `gemmite generate`: a matrix of seeded random numbers.

use std::io::Write;

use anyhow::Result;
use gemmite::{Element, Error, Matrix, random, with_element};

use crate::args::{Distribution, GenerateArgs};
use crate::output::Output;
use crate::progress::watch;

/// Makes the matrix and writes it.
pub fn run(args: &GenerateArgs, out: &mut impl Write) -> Result<()> {
    let output = Output::new(&args.output, args.force)?;
    with_element!(args.dtype, T => {
        let matrix = watch("generating", || matrix::<T>(args))?;
        watch("writing", || output.write(&matrix))?;
    });
    let name = match args.distribution {
        Distribution::Normal => "normal",
        Distribution::Uniform => "uniform",
        Distribution::Integers => "integers",
    };
    let path = args.output.display();
    writeln!(out, "{} {}  {path}, {name}, seed {}", args.shape, args.dtype, args.seed)?;
    Ok(())
}

fn matrix<T: Element>(args: &GenerateArgs) -> Result<Matrix<T>, Error> {
    let GenerateArgs { shape, seed, .. } = *args;
    match args.distribution {
        Distribution::Normal => random::normal(shape, seed),
        Distribution::Uniform => random::uniform(shape, seed),
        Distribution::Integers => random::integers(shape, seed, -9..=9),
    }
}
