//! Calls and divergence.

use super::{Gpu, noise, whole};
use ptx_emulator::{Launch, ReportKind};

#[test]
fn calls() {
    let mut gpu = Gpu::new(include_str!("call.ptx"));
    let count = 40;
    let pairs: Vec<(f64, [i32; 3])> = whole(4 * count, 1000)
        .collect::<Vec<_>>()
        .chunks(4)
        .map(|four| (f64::from(four[0]) / 4.0, [four[1], four[2], four[3]]))
        .collect();
    // A double, three integers, four bytes of padding.
    let bytes: Vec<u8> = pairs
        .iter()
        .flat_map(|(low, rest)| {
            let rest = rest.iter().flat_map(|number| number.to_le_bytes());
            low.to_le_bytes().into_iter().chain(rest).chain([0; 4])
        })
        .collect();
    let (from, to) = (gpu.upload(&bytes), gpu.space::<u8>(24 * count));
    let numbers = gpu.space::<u32>(count);
    let arguments = [from.into(), to.into(), numbers.into()];
    gpu.launch("calls", Launch::new(1, count as u32), &arguments);

    let found = gpu.download::<u8>(to, 24 * count);
    for (i, ((low, rest), found)) in pairs.iter().zip(found.chunks(24)).enumerate() {
        assert_eq!(found[..8], (low * i as f64).to_le_bytes());
        let integer = |at: usize| i32::from_le_bytes(found[at..at + 4].try_into().expect("4"));
        assert_eq!([8, 12, 16].map(integer), [rest[2], rest[1] + i as i32, rest[0]]);
    }
    let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34];
    let expected: Vec<u32> = fibonacci.iter().cycle().take(count).copied().collect();
    assert_eq!(gpu.download::<u32>(numbers, count), expected);
}

#[test]
fn calls_through_pointers() {
    let mut gpu = Gpu::new(include_str!("indirect.ptx"));
    let which: Vec<i32> = noise(64).into_iter().map(|number| (number % 3) as i32).collect();
    let values: Vec<i32> = whole(64, 1000).collect();
    let (table, at) = (gpu.upload(&which), gpu.upload(&values));
    gpu.launch("indirect", Launch::new(1, 64), &[table.into(), at.into()]);
    let expected: Vec<i32> = std::iter::zip(&which, &values)
        .map(|(which, &x)| match which {
            0 => 2 * x,
            1 => x * x,
            _ => -x,
        })
        .collect();
    assert_eq!(gpu.download::<i32>(at, 64), expected);
}

#[test]
fn collatz() {
    let mut gpu = Gpu::new(include_str!("divergence.ptx"));
    let count = 100;
    let input: Vec<u32> = noise(count).into_iter().map(|number| number % 10_000 + 1).collect();
    let (from, to) = (gpu.upload(&input), gpu.space::<u32>(count));
    let arguments = [from.into(), to.into(), (count as i32).into()];
    gpu.launch("collatz", Launch::new(2, 64), &arguments);
    let next = |&n: &u64| match n {
        1 => None,
        n if n.is_multiple_of(2) => Some(n / 2),
        n => Some(3 * n + 1),
    };
    let steps = |&n: &u32| std::iter::successors(Some(u64::from(n)), next).count() as u32 - 1;
    assert_eq!(gpu.download::<u32>(to, count), input.iter().map(steps).collect::<Vec<_>>());
}

#[test]
fn machine() {
    let mut gpu = Gpu::new(include_str!("divergence.ptx"));
    let count = 256;
    let programs: Vec<u8> = noise(8 * count).into_iter().map(|n| (n % 11) as u8).collect();
    let (from, to) = (gpu.upload(&programs), gpu.space::<i32>(count));
    gpu.launch("machine", Launch::new(2, 128), &[from.into(), to.into()]);
    let run = |(i, program): (usize, &[u8])| {
        let mut stack = vec![i as i32];
        for (step, operation) in (0..).zip(program) {
            if *operation == 8 {
                break;
            }
            let top = stack.pop().expect("never empty");
            match operation {
                0 => stack.push(top + 3),
                1 => stack.push(top * 5),
                2 => stack.extend([top, top]),
                3 => match stack.pop() {
                    Some(below) => stack.push(below - top),
                    None => stack.push(top),
                },
                4 => stack.push(top ^ step),
                5 => stack.push(top / 3),
                6 => stack.push(top >> 1),
                7 => stack.push(-top),
                _ => stack.push(top % 100),
            }
            assert!(stack.len() <= 8 || *operation != 2);
            stack.truncate(8);
        }
        stack[stack.len() - 1]
    };
    let expected: Vec<i32> = programs.chunks(8).enumerate().map(run).collect();
    assert_eq!(gpu.download::<i32>(to, count), expected);
}

#[test]
fn a_failed_assertion_is_a_trap() {
    let mut gpu = Gpu::new(include_str!("assertion.ptx"));
    let mut input: Vec<i32> = (0..32).collect();
    let to = gpu.space::<i32>(32);
    let from = gpu.upload(&input);
    gpu.launch("assertion", Launch::new(1, 32), &[from.into(), to.into()]);
    let expected: Vec<i32> = input.iter().map(|number| 2 * number).collect();
    assert_eq!(gpu.download::<i32>(to, 32), expected);

    input[5] = -1;
    let from = gpu.upload(&input);
    let arguments = [from.into(), to.into()];
    let launch = Launch::new(1, 32);
    let result = gpu.emulator.launch(&gpu.module, "assertion", &launch, &arguments);
    let report = result.expect_err("-1 is negative");
    assert_eq!((report.kind, report.thread), (ReportKind::Trap, Some([5, 0, 0])), "{report}");
}
