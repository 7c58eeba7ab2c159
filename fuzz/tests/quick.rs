//! Some inputs of each target; `cargo xtask fuzz` reads as many as you like. One test, because the
//! memory that inputs take is counted for the whole process.

use gemmite_fuzz::{Target, one, run, targets};

/// Inputs of a target in a quick test; of the slow ones a part.
const INPUTS: u64 = 3000;

#[test]
fn no_input_fails_and_what_fails_is_seen() {
    for target in &targets::ALL {
        let inputs = match target.name {
            "run" | "record" | "tuning" => INPUTS / 10,
            _ => INPUTS,
        };
        let summary = run(target, 0, 0..inputs).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(summary.inputs, inputs);
        // Neither all right nor all wrong: inputs get past the first check.
        assert!(summary.right > 0 && summary.right < inputs, "{}: {summary:?}", target.name);
        for seed in (target.seeds)() {
            assert!(one(target, &seed).is_ok(), "{}", target.name);
        }
    }
    fails(|_| panic!("as planned"), "as planned");
    fails(|_| !vec![0u8; gemmite_fuzz::LARGEST + 1].is_empty(), "bytes of memory");
}

fn fails(read: fn(&[u8]) -> bool, reason: &str) {
    let target = Target { name: "fails", what: "", seeds: Vec::new, words: &[], read };
    let failure = run(&target, 7, 5..6).expect_err("it fails");
    let text = failure.to_string();
    assert!(text.contains(reason) && text.contains("input 5 of seed 7"), "{text}");
    // The same input again, from its number alone.
    let again = run(&target, 7, 5..6).expect_err("it fails");
    assert_eq!(again.input, failure.input);
}
