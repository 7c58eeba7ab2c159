//! What is measured, what is refused, and what each line says.

use super::*;
use gemmite::DType;
use std::time::Duration;

fn options() -> Options {
    let effort =
        Effort { rounds: 3, min_rounds: 3, budget: Duration::from_millis(50), ..Effort::STANDARD };
    let peers = Peer::ON_CPU.to_vec();
    let (data, kernels) = (Data::Normal, Vec::new());
    Options {
        effort,
        sustained: None,
        graphs: false,
        reads: Reads::InOrder,
        data,
        peers,
        kernels,
        plans: 0,
    }
}

fn row(dtype: DType) -> Row {
    Row::new(dtype, "nt".parse().unwrap(), [30, 20, 40]).unwrap()
}

#[test]
fn a_row_on_the_cpu_has_times_and_reasons() {
    let lines = Bench::Cpu.row("test", row(DType::F32), &options()).unwrap();
    let names: Vec<&str> = lines.iter().map(|line| line.candidate.as_str()).collect();
    assert_eq!(names, ["gemmite", "gemm", "matrixmultiply", "ndarray"]);
    for line in &lines {
        assert_eq!(line.state, State::Timed, "{line:?}");
        assert!(line.median_ms.unwrap() > 0.0 && line.p10_ms <= line.p90_ms);
        assert!(line.error_over_bound.unwrap() <= 1.0);
    }
    let lines = Bench::Cpu.row("test", row(DType::BF16), &options()).unwrap();
    assert_eq!(lines[0].state, State::Timed);
    assert!(lines[1..].iter().all(|line| line.state == State::Unsupported));
    let mut with_c = row(DType::F64);
    with_c.epilogue.beta = Some(0.5);
    let lines = Bench::Cpu.row("test", with_c, &options()).unwrap();
    assert_eq!(lines[0].state, State::Timed);
    assert!(lines[1..].iter().all(|line| line.state == State::Unsupported));
}

/// Computes what `spoil` makes of the right product.
struct Spoiled<'a> {
    right: Vec<f32>,
    spoil: &'a dyn Fn(&mut Vec<f32>),
    samples: usize,
}

impl Work for Spoiled<'_> {
    fn sample(&mut self, runs: u32) -> Result<Duration> {
        self.samples += 1;
        assert_eq!(self.samples, 0, "a wrong candidate was timed, {runs} runs");
        Ok(Duration::from_millis(1))
    }
}

impl Candidate<f32> for Spoiled<'_> {
    fn product(&mut self) -> Result<Vec<f32>> {
        let mut out = self.right.clone();
        (self.spoil)(&mut out);
        Ok(out)
    }
}

#[test]
fn what_is_wrong_gets_no_time() {
    let case = Case::<f32>::generate(row(DType::F32), Data::Normal).unwrap();
    let entrant = ours::on_cpu(&case);
    let right = entrant.candidate.ok().unwrap().product().unwrap();
    type Spoil<'a> = &'a dyn Fn(&mut Vec<f32>);
    // What is wrong, and whether it is so many times the bound.
    let spoils: [(&str, Spoil<'_>, bool); 4] = [
        ("one element", &|out| out[123] += 1.0, true),
        ("all but the poison", &|out| out.copy_from_slice(&case.c), false),
        ("a row too few", &|out| out.truncate(out.len() - 20), false),
        ("NaN", &|out| out[599] = f32::NAN, false),
    ];
    for (name, spoil, has_ratio) in spoils {
        let work = Spoiled { right: right.clone(), spoil, samples: 0 };
        let entrants = vec![Entrant::peer(name, String::new(), work)];
        let lines = measure("test", &case, entrants, &options(), None);
        assert_eq!(lines[0].state, State::Refused, "{name}");
        assert_eq!(lines[0].median_ms, None, "{name}");
        assert!(!lines[0].note.is_empty());
        let ratio = lines[0].error_over_bound;
        assert_eq!(ratio.is_some(), has_ratio, "{name}");
        assert!(ratio.is_none_or(|ratio| ratio > 1.0), "{name}: {ratio:?}");
    }
}

/// Gives up, for a reason.
struct GivesUp(anyhow::Error);

impl Work for GivesUp {
    fn sample(&mut self, _runs: u32) -> Result<Duration> {
        unreachable!("it has no product")
    }
}

impl Candidate<f32> for GivesUp {
    fn product(&mut self) -> Result<Vec<f32>> {
        Err(std::mem::replace(&mut self.0, anyhow::anyhow!("once more")))
    }
}

#[test]
fn who_says_that_there_is_no_such_product_has_not_failed() {
    let case = Case::<f32>::generate(row(DType::F32), Data::Normal).unwrap();
    let says = |error: anyhow::Error| {
        let entrants = vec![Entrant::peer("says", String::new(), GivesUp(error))];
        measure("test", &case, entrants, &options(), None).remove(0)
    };
    let unsupported = says(Absence::unsupported("no such type").into());
    assert_eq!((unsupported.state, &*unsupported.note), (State::Unsupported, "no such type"));
    assert_eq!(says(anyhow::anyhow!("out of memory")).state, State::Failed);
}

#[test]
fn a_choice_without_a_time_has_a_line_in_every_mode() {
    let case = Case::<f32>::generate(row(DType::F32), Data::Normal).unwrap();
    let mut choice = Entrant::absent(ours::AUTO, Absence::unsupported("by a test"));
    choice.side = Side::Ours;
    let other = Entrant { name: "another".to_owned(), ..ours::on_cpu(&case) };
    let options = Options { sustained: Some(0.05), ..options() };
    let lines = measure("test", &case, vec![choice, other], &options, None);
    let found: Vec<_> = lines.iter().map(|line| (line.mode, line.state)).collect();
    let of = |mode| [(mode, State::Unsupported), (mode, State::Timed)];
    assert_eq!(found, [of(Mode::Burst), of(Mode::Sustained)].concat());
}

#[test]
fn one_product_of_a_batch_misses_by_so_many_bounds() {
    let case = Case::<f32>::generate(Row { batch: 3, ..row(DType::F32) }, Data::Normal);
    let case = case.unwrap();
    let right = ours::on_cpu(&case).candidate.ok().unwrap().product().unwrap();
    let spoil = |out: &mut Vec<f32>| out[2 * 600 + 7] += 1.0;
    let work = Spoiled { right, spoil: &spoil, samples: 0 };
    let entrants = vec![Entrant::peer("spoiled", String::new(), work)];
    let line = measure("test", &case, entrants, &options(), None).remove(0);
    assert!(line.note.starts_with("product 2: "), "{}", line.note);
    assert!(line.error_over_bound.unwrap() > 1.0);
}

#[test]
fn sustained_lines_come_beside_the_burst() {
    let options = Options { sustained: Some(0.05), graphs: true, ..options() };
    let lines = Bench::Cpu.row("test", row(DType::F64), &options).unwrap();
    let modes = |mode| lines.iter().filter(|line| line.mode == mode).count();
    assert_eq!((modes(Mode::Burst), modes(Mode::Sustained)), (4, 4));
    assert_eq!(modes(Mode::Graph), 0, "the CPU has none");
}

#[test]
fn numbers_are_short_and_rows_can_be_left_out() {
    assert_eq!(significant(0.123_456_789), 0.12346);
    assert!(method(&options()).iter().any(|line| line.contains("0.25 us a launch")));
    let suite = Suite::find("square").unwrap();
    let (rows, left_out) = within(&suite, Some(1.0));
    assert_eq!(rows.len() + left_out, suite.rows.len());
    assert!(rows.iter().all(|row| row.flop() <= 1e9) && left_out > 0);
    assert!(check_kernels(&["k02_tiled_16".into()]).is_ok());
    assert!(check_kernels(&["k99".into()]).is_err());
    let error = check_kernels(&["warp_group_scaled_128x128".into()]).unwrap_err().to_string();
    assert!(error.contains("is for operands with scales"), "{error}");
}
