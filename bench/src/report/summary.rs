//! What a record says about us and the peers, as numbers: no text, no drawing.

use crate::record::{Line, Mode, Record, RowKey, Side, State};

/// Our line and a peer's on one row, both timed.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The row.
    pub row: RowKey,
    /// The library's choice (`gemmite`) where the row has that line, else the fastest of ours.
    pub ours: &'a Line,
    /// The peer's line.
    pub peer: &'a Line,
}

/// One suite in one mode, over its rows.
#[derive(Clone, Debug)]
pub struct SuiteSummary<'a> {
    /// The suite's name.
    pub suite: String,
    /// How its rows were timed.
    pub mode: Mode,
    /// All its rows.
    pub rows: usize,
    /// Rows with a time of ours and one of a peer; the numbers below are about these.
    pub compared: usize,
    /// Rows that a peer has a time for and we have not.
    pub without_ours: usize,
    /// Geometric mean of [`Comparison::ratio`] against each row's fastest peer.
    pub against_fastest: Option<f64>,
    /// That mean, if each row of ours took no longer than the roofs that the record shows: its
    /// operations at the best rate of its dtype, and its bytes at the bandwidth of a copy.
    pub at_roofs: Option<f64>,
    /// How the library's choice stands to the fastest of ours, where the record has others too.
    pub choice: Option<Choice<'a>>,
    /// For each peer: its name, the rows compared, the geometric mean of the ratio.
    pub against: Vec<(String, usize, f64)>,
    /// Rows on which we are as fast as the fastest peer or faster.
    pub wins: usize,
    /// Rows on which we are slower.
    pub losses: usize,
    /// Wins and losses that the spread of the samples could explain.
    pub within_spread: usize,
    /// The row with the lowest ratio.
    pub worst: Option<Comparison<'a>>,
    /// The row with the highest.
    pub best: Option<Comparison<'a>>,
}

/// The library's choice on rows that were measured by other plans of ours too.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// These rows.
    pub rows: usize,
    /// Geometric mean of the speed over that of the fastest plan of each row, itself perhaps: at
    /// most 1.
    pub mean: f64,
    /// The row with the lowest, the fastest plan as the peer.
    pub worst: Comparison<'a>,
}

impl Comparison<'_> {
    /// Our speed over the peer's: the peer's median over ours. Below 1 we are slower.
    pub fn ratio(&self) -> f64 {
        ratio(self.ours, self.peer)
    }

    /// Whether the medians are no further apart than the two spreads together ([`Line::spread`]).
    pub fn within_spread(&self) -> bool {
        let half_width = |line: &Line| line.spread().unwrap_or(0.0) * time_ms(line).unwrap_or(0.0);
        let apart = time_ms(self.ours).zip(time_ms(self.peer)).map(|(a, b)| (a - b).abs());
        apart.is_some_and(|apart| apart <= half_width(self.ours) + half_width(self.peer))
    }
}

/// The line's median in milliseconds, if it was timed and the file holds a usable number.
pub fn time_ms(line: &Line) -> Option<f64> {
    let timed = line.state == State::Timed;
    line.median_ms.filter(|ms| timed && ms.is_finite() && *ms > 0.0)
}

/// The line's rate in 10^12 operations a second, if it was timed.
pub fn tflops(line: &Line) -> Option<f64> {
    let ms = time_ms(line)?;
    let written = line.tflops.filter(|rate| rate.is_finite() && *rate > 0.0);
    let operations = [2, line.m, line.n, line.k, line.batch].map(|factor| factor as f64);
    written.or(Some(operations.iter().product::<f64>() / ms / 1e9)).filter(|rate| *rate > 0.0)
}

/// Operations for each byte that the product has to move at least, if the line was timed.
pub fn intensity(line: &Line) -> Option<f64> {
    let gbps = line.gbps.filter(|rate| rate.is_finite() && *rate > 0.0)?;
    Some(tflops(line)? * 1000.0 / gbps)
}

/// The bandwidth in the fact `copy_gbps`, 10^9 bytes a second.
pub fn bandwidth(record: &Record) -> Option<f64> {
    let number = record.fact("copy_gbps")?.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(number).filter(|number| number.is_finite() && *number > 0.0)
}

/// The best rate that any candidate reached in a dtype, 10^12 operations a second; 0 of none.
pub fn best_rate(record: &Record, dtype: &str) -> f64 {
    let lines = record.lines.iter().filter(|line| line.dtype == dtype).filter_map(tflops);
    lines.fold(0.0, f64::max)
}

/// What a timed line reaches of the lower one of its roofs; all of it where it reads faster than a
/// copy does, half of which is written.
fn share_of_roofs(record: &Record, line: &Line) -> Option<f64> {
    let operations = tflops(line)? / best_rate(record, &line.dtype);
    let bytes = line.gbps? / bandwidth(record)?;
    Some(operations.max(bytes).min(1.0)).filter(|share| share.is_finite() && *share > 0.0)
}

/// Our speed over the peer's, from two timed lines.
pub fn ratio(ours: &Line, peer: &Line) -> f64 {
    time_ms(peer).unwrap_or(f64::NAN) / time_ms(ours).unwrap_or(f64::NAN)
}

/// The line that stands for us on a row: `gemmite` where there is one, timed or not, else the
/// fastest of ours.
pub fn our_line<'a>(lines: &[&'a Line]) -> Option<&'a Line> {
    let ours = || lines.iter().copied().filter(|line| line.side == Side::Ours);
    ours().find(|line| line.candidate == "gemmite").or_else(|| fastest(ours()))
}

/// The fastest peer of a row.
pub fn fastest_peer<'a>(lines: &[&'a Line]) -> Option<&'a Line> {
    fastest(lines.iter().copied().filter(|line| line.side == Side::Peer))
}

/// The line with the least time, if any was timed.
fn fastest<'a>(lines: impl Iterator<Item = &'a Line>) -> Option<&'a Line> {
    let timed = lines.filter_map(|line| Some((time_ms(line)?, line)));
    timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, line)| line)
}

/// The geometric mean of positive numbers; `None` of none.
pub fn geomean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.log2()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp2())
}

/// Every row on which both we and a peer have a time, against the fastest peer, in the record's
/// order.
pub fn comparisons(record: &Record) -> Vec<Comparison<'_>> {
    record.rows().into_iter().filter_map(|(row, lines)| compare(row, &lines)).collect()
}

/// The row's comparison with its fastest peer.
pub fn compare<'a>(row: RowKey, lines: &[&'a Line]) -> Option<Comparison<'a>> {
    let ours = our_line(lines).filter(|line| time_ms(line).is_some())?;
    Some(Comparison { row, ours, peer: fastest_peer(lines)? })
}

/// The rows on which the fastest peer is faster than we are, worst first.
pub fn losses(record: &Record) -> Vec<Comparison<'_>> {
    let mut losses = comparisons(record);
    losses.retain(|comparison| comparison.ratio() < 1.0);
    losses.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    losses
}

/// The rows that a peer has a time for and we have not, with our line if there is one.
pub fn without_ours(record: &Record) -> Vec<(RowKey, Option<&Line>)> {
    let rows = record.rows().into_iter();
    rows.filter(|(_, lines)| peer_alone(lines))
        .map(|(row, lines)| {
            let first = lines.iter().copied().find(|line| line.side == Side::Ours);
            (row, our_line(&lines).or(first))
        })
        .collect()
}

/// Whether a peer has a time for the row and we have not.
fn peer_alone(lines: &[&Line]) -> bool {
    our_line(lines).and_then(time_ms).is_none() && fastest_peer(lines).is_some()
}

/// A summary of each suite and mode, in the record's order.
pub fn summaries(record: &Record) -> Vec<SuiteSummary<'_>> {
    let groups = grouped(record.rows(), |(row, _)| (row.suite.clone(), row.mode));
    groups.into_iter().map(|((suite, mode), rows)| summary(record, suite, mode, &rows)).collect()
}

/// The summary of a suite's rows.
fn summary<'a>(
    record: &Record,
    suite: String,
    mode: Mode,
    rows: &[(RowKey, Vec<&'a Line>)],
) -> SuiteSummary<'a> {
    let compared: Vec<Comparison> =
        rows.iter().filter_map(|(row, lines)| compare(row.clone(), lines)).collect();
    let ratios: Vec<f64> = compared.iter().map(Comparison::ratio).collect();
    let losses = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let at_roofs = |row: &Comparison| Some(row.ratio() / share_of_roofs(record, row.ours)?);
    let at_roofs: Option<Vec<f64>> = compared.iter().map(at_roofs).collect();
    let by_ratio = |a: &&Comparison, b: &&Comparison| a.ratio().total_cmp(&b.ratio());
    SuiteSummary {
        suite,
        mode,
        rows: rows.len(),
        compared: compared.len(),
        without_ours: rows.iter().filter(|(_, lines)| peer_alone(lines)).count(),
        against_fastest: geomean(&ratios),
        at_roofs: at_roofs.and_then(|ratios| geomean(&ratios)),
        choice: choice(rows),
        against: against_each(rows),
        wins: compared.len() - losses,
        losses,
        within_spread: compared.iter().filter(|row| row.within_spread()).count(),
        worst: compared.iter().min_by(by_ratio).cloned(),
        best: compared.iter().max_by(by_ratio).cloned(),
    }
}

/// How the library's choice stands to the fastest of ours on the rows that have both.
fn choice<'a>(rows: &[(RowKey, Vec<&'a Line>)]) -> Option<Choice<'a>> {
    let compare = |(row, lines): &(RowKey, Vec<&'a Line>)| {
        let ours = our_line(lines).filter(|line| time_ms(line).is_some())?;
        let all = || lines.iter().copied().filter(|line| line.side == Side::Ours);
        let others = all().filter(|line| time_ms(line).is_some()).count() > 1;
        let peer = fastest(all()).filter(|_| others)?;
        Some(Comparison { row: row.clone(), ours, peer })
    };
    let compared: Vec<Comparison> = rows.iter().filter_map(compare).collect();
    let ratios: Vec<f64> = compared.iter().map(Comparison::ratio).collect();
    let by_ratio = |a: &Comparison, b: &Comparison| a.ratio().total_cmp(&b.ratio());
    Some(Choice {
        rows: compared.len(),
        mean: geomean(&ratios)?,
        worst: compared.into_iter().min_by(by_ratio)?,
    })
}

/// For each peer with a time: its name, the rows compared, the geometric mean of the ratio.
fn against_each(rows: &[(RowKey, Vec<&Line>)]) -> Vec<(String, usize, f64)> {
    let pairs = rows.iter().flat_map(|(_, lines)| {
        let ours = our_line(lines).filter(|line| time_ms(line).is_some());
        let peers = lines.iter().filter(|line| line.side == Side::Peer && time_ms(line).is_some());
        peers.filter_map(move |peer| Some((&peer.candidate, ratio(ours?, peer))))
    });
    let peers = grouped(pairs, |(name, _)| *name).into_iter();
    peers
        .filter_map(|(name, pairs)| {
            let ratios: Vec<f64> = pairs.iter().map(|(_, ratio)| *ratio).collect();
            Some((name.to_owned(), ratios.len(), geomean(&ratios)?))
        })
        .collect()
}

/// The items of each key, keys and items in the order in which they come.
pub fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{line, record, untimed};

    #[test]
    fn the_library_choice_stands_for_us() {
        let lines = [line("a", "k02", 1.0), line("a", "gemmite", 2.0), line("a", "torch", 1.5)];
        let record = record(&lines);
        let [comparison] = &comparisons(&record)[..] else { panic!("one row") };
        assert_eq!(comparison.ours.candidate, "gemmite");
        assert_eq!(comparison.ratio(), 0.75);
        assert!(!comparison.within_spread());
    }

    #[test]
    fn the_fastest_of_ours_and_of_theirs_without_it() {
        let lines = [
            line("a", "k01", 4.0),
            line("a", "k02", 2.0),
            line("a", "torch", 3.0),
            line("a", "cublas", 2.5),
            untimed("a", "triton", State::Failed),
        ];
        let record = record(&lines);
        let comparison = &comparisons(&record)[0];
        assert_eq!((&*comparison.ours.candidate, &*comparison.peer.candidate), ("k02", "cublas"));
        assert_eq!(comparison.ratio(), 1.25);
        assert!(losses(&record).is_empty());
    }

    #[test]
    fn a_choice_without_a_time_is_not_replaced() {
        let lines = [
            untimed("a", "gemmite", State::Refused),
            line("a", "k02", 1.0),
            line("a", "cublas", 2.0),
        ];
        let record = record(&lines);
        assert!(comparisons(&record).is_empty());
        let [summary] = &summaries(&record)[..] else { panic!("one suite") };
        assert_eq!((summary.rows, summary.compared, summary.without_ours), (1, 0, 1));
        assert!(summary.against_fastest.is_none() && summary.against.is_empty());
        assert_eq!(without_ours(&record)[0].1.unwrap().state, State::Refused);
    }

    #[test]
    fn summaries_count_and_average() {
        let mut close = line("a", "gemmite", 1.02);
        (close.k, close.p10_ms, close.p90_ms) = (7, Some(0.99), Some(1.05));
        let mut peer = line("a", "cublas", 1.0);
        peer.k = 7;
        let lines = [
            line("a", "gemmite", 1.0),
            line("a", "cublas", 4.0),
            line("a", "torch", 8.0),
            close,
            peer,
            line("b", "gemmite", 4.0),
            line("b", "torch", 1.0),
        ];
        let record = record(&lines);
        let [a, b] = &summaries(&record)[..] else { panic!("two suites") };
        assert_eq!((a.rows, a.compared, a.wins, a.losses, a.within_spread), (2, 2, 1, 1, 1));
        assert!((a.against_fastest.unwrap() - (4.0_f64 / 1.02).sqrt()).abs() < 1e-12);
        assert_eq!(a.against[0].0, "cublas");
        assert_eq!((&*a.against[1].0, a.against[1].1, a.against[1].2), ("torch", 1, 8.0));
        assert_eq!(a.worst.as_ref().unwrap().ours.k, 7);
        assert_eq!((b.wins, b.losses, b.against_fastest), (0, 1, Some(0.25)));
        let suites: Vec<_> = losses(&record).iter().map(|loss| loss.row.suite.clone()).collect();
        assert_eq!(suites, ["b", "a"]);
    }

    #[test]
    fn bandwidths_are_numbers() {
        let fact = |value: &str| Record {
            facts: vec![("copy_gbps".into(), value.into())],
            lines: Vec::new(),
        };
        assert_eq!(bandwidth(&fact("3012.5 (a copy of 1 GiB)")), Some(3012.5));
        assert_eq!(
            [bandwidth(&fact("NaN")), bandwidth(&fact("-1")), bandwidth(&fact(""))],
            [None; 3]
        );
        assert_eq!(bandwidth(&Record::default()), None);
    }

    #[test]
    fn the_choice_stands_to_the_fastest_of_ours() {
        let alone = record(&[line("a", "gemmite", 2.0), line("a", "cublas", 1.0)]);
        assert!(summaries(&alone)[0].choice.is_none());
        let mut other = line("a", "k", 1.5);
        other.side = Side::Ours;
        let both = record(&[line("a", "gemmite", 2.0), line("a", "cublas", 1.0), other]);
        let choice = summaries(&both)[0].choice.clone().unwrap();
        assert_eq!((choice.rows, choice.worst.peer.candidate.as_str()), (1, "k"));
        assert!((choice.mean - 0.75).abs() < 1e-12 && choice.worst.ratio() == 0.75);
    }

    #[test]
    fn roofs_are_what_the_record_shows() {
        let mut ours = line("a", "gemmite", 2.0);
        (ours.tflops, ours.gbps) = (Some(1.0), Some(50.0));
        let mut peer = line("a", "cublas", 1.0);
        (peer.tflops, peer.gbps) = (Some(2.0), Some(100.0));
        let mut record = record(&[ours, peer]);
        assert_eq!(summaries(&record)[0].at_roofs, None);
        // Half of the best rate, and an eighth of the bandwidth.
        record.facts.push(("copy_gbps".into(), "400".into()));
        assert_eq!(summaries(&record)[0].at_roofs, Some(1.0));
        // Five sixths of another bandwidth.
        record.facts[0].1 = "60".into();
        assert!((summaries(&record)[0].at_roofs.unwrap() - 0.6).abs() < 1e-12);
        // Read faster than a copy.
        record.facts[0].1 = "40".into();
        assert_eq!(summaries(&record)[0].at_roofs, Some(0.5));
    }

    #[test]
    fn numbers_that_are_none_are_left_out() {
        let lines = [line("a", "gemmite", 0.0), line("a", "cublas", f64::NAN)];
        assert!(comparisons(&record(&lines)).is_empty());
        assert_eq!(geomean(&[]), None);
        assert_eq!(geomean(&[2.0, 8.0]), Some(4.0));
        let mut timed = line("a", "gemmite", 2.0);
        (timed.tflops, timed.gbps) = (None, Some(100.0));
        assert_eq!(tflops(&timed), Some(2.0 * 64.0 * 64.0 * 64.0 / 2e-3 / 1e12));
        assert!((intensity(&timed).unwrap() - 0.262144 * 1000.0 / 1e5).abs() < 1e-12);
    }
}
