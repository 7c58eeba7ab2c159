//! Where lanes that part meet again: immediate post-dominators of the control-flow graph.
//!
//! The algorithm is that of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on
//! the reversed graph with the function's end as its root.

use super::instruction::END;

/// What an instruction does to the control flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Goes on with the next one.
    Next,
    /// Goes to one of these, or on.
    Branch(Vec<u32>),
    /// Goes to one of these.
    Jump(Vec<u32>),
    /// Leaves the function.
    End,
}

/// The basic blocks.
pub(super) struct Graph {
    /// Their first instructions, rising.
    pub(super) starts: Vec<u32>,
    /// Where each goes on; the number of blocks is the function's end.
    pub(super) successors: Vec<Vec<usize>>,
}

impl Graph {
    /// `flows[i]` is instruction i's; the last one doesn't go on.
    pub(super) fn new(flows: &[Flow]) -> Graph {
        let mut graph = Graph { starts: block_starts(flows), successors: Vec::new() };
        let end = graph.starts.len();
        for block in 0..end {
            let next = graph.starts.get(block + 1).copied().unwrap_or(flows.len() as u32);
            let last = &flows[next as usize - 1];
            let mut to: Vec<usize> = match last {
                Flow::Next | Flow::End => Vec::new(),
                Flow::Branch(to) | Flow::Jump(to) => {
                    to.iter().map(|to| graph.block_of(*to)).collect()
                }
            };
            match last {
                Flow::Next | Flow::Branch(_) if (next as usize) < flows.len() => to.push(block + 1),
                Flow::Jump(_) => {}
                _ => to.push(end),
            }
            graph.successors.push(to);
        }
        graph
    }

    fn block_of(&self, instruction: u32) -> usize {
        self.starts.partition_point(|start| *start <= instruction) - 1
    }
}

/// For each instruction that branches, the first instruction that every way from it leads through;
/// [`END`] where there is none. `graph` is that of `flows`.
///
/// Lanes that leave early meet nobody, so ways to an early end don't count: only those to the end
/// that most of the function leads to, where there is a way to that one.
pub(super) fn meeting_points(graph: &Graph, flows: &[Flow]) -> Vec<u32> {
    let Graph { starts, successors } = graph;
    let end = starts.len();
    let all = post_dominators(successors);
    let mut main = successors.clone();
    if let Some(chosen) = main_end(successors, MOST_VISITS) {
        for (block, to) in main.iter_mut().enumerate() {
            if block != chosen {
                to.retain(|to| *to != end);
            }
        }
    }
    let parents = post_dominators(&main);
    let meet = |(i, flow): (usize, &Flow)| match flow {
        Flow::Branch(_) | Flow::Jump(_) => {
            let block = graph.block_of(i as u32);
            match parents[block].or(all[block]) {
                Some(block) if block < end => starts[block],
                _ => END,
            }
        }
        _ => END,
    };
    flows.iter().enumerate().map(meet).collect()
}

/// Blocks that are visited, at the most, to choose among a function's ends.
const MOST_VISITS: usize = 1 << 24;

/// Of the blocks that leave the function, the one that most blocks lead to; of several, the last.
/// Each takes a walk over the function: only the last ones are looked at of more than so many
/// visits allow.
fn main_end(successors: &[Vec<usize>], visits: usize) -> Option<usize> {
    let end = successors.len();
    let mut predecessors = vec![Vec::new(); end + 1];
    for (block, to) in successors.iter().enumerate() {
        to.iter().for_each(|to| predecessors[*to].push(block));
    }
    let reach = |from: usize| {
        let mut seen = vec![false; end];
        let mut walk = vec![from];
        while let Some(block) = walk.pop() {
            if !std::mem::replace(&mut seen[block], true) {
                walk.extend(&predecessors[block]);
            }
        }
        seen.iter().filter(|seen| **seen).count()
    };
    let walks = (visits / end).max(1);
    let ends = predecessors[end].iter().rev().take(walks);
    ends.copied().max_by_key(|block| (reach(*block), *block))
}

/// The first instructions of the basic blocks, rising.
fn block_starts(flows: &[Flow]) -> Vec<u32> {
    let mut starts = vec![0];
    for (i, flow) in flows.iter().enumerate() {
        if *flow != Flow::Next && i + 1 < flows.len() {
            starts.push(i as u32 + 1);
        }
        if let Flow::Branch(to) | Flow::Jump(to) = flow {
            starts.extend(to);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The immediate post-dominator of each block; the end's number is that of the blocks.
fn post_dominators(successors: &[Vec<usize>]) -> Vec<Option<usize>> {
    let end = successors.len();
    let mut predecessors = vec![Vec::new(); end + 1];
    for (block, to) in successors.iter().enumerate() {
        to.iter().for_each(|to| predecessors[*to].push(block));
    }
    // Blocks in postorder of a walk from the end, against the arrows.
    let mut order = Vec::new();
    let mut rank = vec![usize::MAX; end + 1];
    let mut seen = vec![false; end + 1];
    let mut walk = vec![(end, 0)];
    seen[end] = true;
    while let Some((block, i)) = walk.pop() {
        if let Some(before) = predecessors[block].get(i) {
            walk.push((block, i + 1));
            if !seen[*before] {
                seen[*before] = true;
                walk.push((*before, 0));
            }
        } else {
            rank[block] = order.len();
            order.push(block);
        }
    }
    let mut parents = vec![None; end + 1];
    parents[end] = Some(end);
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().rev().filter(|block| **block != end) {
            let known = successors[*block].iter().filter(|to| parents[**to].is_some());
            let parent = known.copied().reduce(|a, b| common(&parents, &rank, a, b));
            if parent != parents[*block] {
                parents[*block] = parent;
                changed = true;
            }
        }
    }
    parents
}

/// The nearest block that both a and b lead through.
fn common(parents: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while rank[a] < rank[b] {
            a = parents[a].expect("a block with a rank has a parent");
        }
        while rank[b] < rank[a] {
            b = parents[b].expect("a block with a rank has a parent");
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flow::*;

    fn meeting_points(flows: &[Flow]) -> Vec<u32> {
        super::meeting_points(&Graph::new(flows), flows)
    }

    #[test]
    fn both_arms_meet_after_the_if() {
        // 0: branch 3; 1: next; 2: jump 4; 3: next; 4: end
        let flows = [Branch(vec![3]), Next, Jump(vec![4]), Next, End];
        assert_eq!(meeting_points(&flows)[..1], [4]);
        assert_eq!(meeting_points(&flows)[2], 4);
    }

    #[test]
    fn loops_meet_behind_themselves() {
        // 0: next; 1: branch 4 (out); 2: next; 3: jump 1; 4: end
        let flows = [Next, Branch(vec![4]), Next, Jump(vec![1]), End];
        assert_eq!(meeting_points(&flows)[1], 4);
        // A loop whose condition is at its end.
        let flows = [Next, Branch(vec![0]), End];
        assert_eq!(meeting_points(&flows)[1], 2);
    }

    #[test]
    fn lanes_that_leave_early_are_not_waited_for() {
        // 0: branch 3; 1: branch 3; 2: end; 3: next; 4: end
        let flows = [Branch(vec![3]), Branch(vec![3]), End, Next, End];
        assert_eq!(meeting_points(&flows)[..2], [3, 3]);
    }

    #[test]
    fn early_exits_meet_at_the_end_and_endless_loops_nowhere() {
        let flows = [Branch(vec![2]), End, End];
        assert_eq!(meeting_points(&flows)[0], 2);
        let flows = [Branch(vec![2]), Jump(vec![1]), End];
        assert_eq!(meeting_points(&flows)[0], 2);
        let flows = [Jump(vec![0])];
        assert_eq!(meeting_points(&flows)[0], END);
    }
    #[test]
    fn the_last_of_too_many_ends_are_looked_at() {
        // 0: to 1 or 3; 1: to 2; 2: the end; 3: the end
        let successors = [vec![1, 3], vec![2], vec![4], vec![4]];
        assert_eq!(main_end(&successors, 8), Some(2));
        assert_eq!(main_end(&successors, 7), Some(3));
        assert_eq!(main_end(&successors, 0), Some(3));
    }
}
