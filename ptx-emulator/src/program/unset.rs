//! Registers that a thread may read before it has written them: when a function begins, these are
//! cleared, and what others have from before nobody sees.
//!
//! Liveness, backwards over basic blocks, as in any book on compilers: a register that is live
//! where the function begins.

use super::flow::Graph;
use super::instruction::{CONSTANT, FALSE, Instruction, Slot, TRUE};

/// A set of registers.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn empty(registers: usize) -> Set {
        Set(vec![0; registers.div_ceil(64)])
    }

    fn add(&mut self, slot: Slot) {
        if slot & CONSTANT == 0 {
            self.0[slot as usize / 64] |= 1 << (slot % 64);
        }
    }

    fn has(&self, slot: Slot) -> bool {
        slot & CONSTANT == 0 && self.0[slot as usize / 64] >> (slot % 64) & 1 != 0
    }
}

/// What a basic block does to registers.
struct Block {
    /// Reads before it has written them.
    reads: Set,
    /// Writes, whatever a predicate says.
    writes: Set,
}

impl Block {
    fn new(code: &[Instruction], registers: usize) -> Block {
        let (mut reads, mut writes) = (Set::empty(registers), Set::empty(registers));
        for i in code {
            let (written, read) = i.list.split_at(i.writes.into());
            // The accumulators of a warpgroup's product are destinations that it may read.
            let sums = if i.is_group_product() && i.q != FALSE { written } else { &[] };
            for &slot in [i.a, i.b, i.c].iter().chain(read).chain(sums) {
                if !writes.has(slot) {
                    reads.add(slot);
                }
            }
            if i.guard == TRUE {
                written.iter().chain([&i.d]).for_each(|&slot| writes.add(slot));
            }
        }
        Block { reads, writes }
    }
}

/// Blocks times registers of a function beyond which all are cleared: the sets would take more
/// memory than that is worth. A kernel for Hopper has a fifteenth of it.
const MOST: usize = 1 << 26;

/// The registers of a function that it may read first.
pub(super) fn unset(code: &[Instruction], graph: &Graph, registers: usize) -> Vec<Slot> {
    let Graph { starts, successors } = graph;
    if starts.len().saturating_mul(registers) > MOST {
        return (0..registers as Slot).collect();
    }
    let end = |block: usize| starts.get(block + 1).map_or(code.len(), |next| *next as usize);
    let of =
        |(block, &start): (usize, &u32)| Block::new(&code[start as usize..end(block)], registers);
    let blocks: Vec<Block> = starts.iter().enumerate().map(of).collect();
    // Behind the function's end nothing is read.
    let mut live = vec![Set::empty(registers); blocks.len() + 1];
    let mut changed = true;
    while changed {
        changed = false;
        for (number, block) in blocks.iter().enumerate().rev() {
            let mut before = block.reads.clone();
            for next in &successors[number] {
                let words = before.0.iter_mut().zip(&live[*next].0).zip(&block.writes.0);
                words.for_each(|((before, next), writes)| *before |= next & !writes);
            }
            if before != live[number] {
                live[number] = before;
                changed = true;
            }
        }
    }
    (0..registers as Slot).filter(|slot| live[0].has(*slot)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::end_of_function;
    use crate::program::flow::Flow;

    fn instruction(d: Slot, a: Slot, guard: u32) -> Instruction {
        Instruction { d, a, guard, ..end_of_function() }
    }

    #[test]
    fn what_some_way_reads_first_is_found() {
        // 0: branch 3; 1: r1 = r2; 2: jump 4; 3: @p r3 = 1; 4: r4 = r1; 5: r5 = r3; 6: end
        let code = [
            instruction(0, 0, 7),
            instruction(1, 2, TRUE),
            instruction(0, 0, TRUE),
            instruction(3, CONSTANT, 7),
            instruction(4, 1, TRUE),
            instruction(5, 3, TRUE),
            instruction(0, 4, TRUE),
        ];
        let flows = [
            Flow::Branch(vec![3]),
            Flow::Next,
            Flow::Jump(vec![4]),
            Flow::Next,
            Flow::Next,
            Flow::Next,
            Flow::End,
        ];
        assert_eq!(unset(&code, &Graph::new(&flows), 80), [0, 1, 2, 3]);
    }

    #[test]
    fn of_a_huge_function_all_are_cleared() {
        let flows = vec![Flow::Branch(vec![0]); 1 << 17];
        assert_eq!(unset(&[], &Graph::new(&flows), 1000).len(), 1000);
    }

    #[test]
    fn what_a_loop_carries_is_set_before_it() {
        // 0: r70 = 1; 1: r71 = r70; 2: r70 = r71; 3: branch 1; 4: end
        let code = [
            instruction(70, CONSTANT, TRUE),
            instruction(71, 70, TRUE),
            instruction(70, 71, TRUE),
            instruction(0, CONSTANT, 7),
            instruction(0, CONSTANT, TRUE),
        ];
        let flows = [Flow::Next, Flow::Next, Flow::Next, Flow::Branch(vec![1]), Flow::End];
        let left = unset(&code, &Graph::new(&flows), 80);
        assert!(left.iter().all(|slot| *slot == 0), "{left:?}");
    }
}
