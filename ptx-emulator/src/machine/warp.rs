//! Warps: registers, divergence and reconvergence, and the loop that executes.
//!
//! Lanes that part at a branch become paths on a stack, which meet again at the branch's immediate
//! post-dominator. The path that runs is apart from the stack.

use super::context::{Context, Lanes, Outcome, Step};
use super::registers;
use crate::check::{Fault, ReportKind};
use crate::memory::LocalMemory;
use crate::program::{Branch, END, TRUE};
use crate::sync::Reduction;

/// Lanes that go the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    /// The next instruction.
    pub pc: u32,
    pub mask: u32,
    /// Where the path ends and the next one of the stack goes on, its lanes among that one's.
    pub meet: u32,
}

/// A function that lanes of a warp are in.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The function's index in the program.
    pub function: usize,
    /// The number of the call that it is of, in its warp; 0 is the kernel's.
    pub call: u64,
    pub registers: Vec<Lanes>,
    pub predicates: Vec<u32>,
    /// The path that runs.
    pub path: Path,
    /// Those that wait.
    pub stack: Vec<Path>,
    /// Strong accesses of the path since it began: many, where it waits for another path.
    pub spins: u32,
    /// The first address of the frame in local memory.
    pub local: u64,
    /// The lanes that entered.
    pub entered: u32,
    /// Registers with values that nothing has written.
    pub marks: super::unwritten::Marks,
    /// Results to copy when it returns: from, to, bytes.
    pub results: Vec<(u64, u64, u64)>,
}

/// Why a warp doesn't run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Ready,
    /// Waits at a barrier of the block, by its number.
    Barrier(usize),
    /// Asks again and again for what the text says.
    Polling(String),
    /// All lanes have exited.
    Done,
}

/// A warp of a block.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    /// Its number in the block.
    pub index: usize,
    /// The lanes that have a thread and haven't exited.
    pub live: u32,
    /// Its interval of the race checker, ended by `bar.warp.sync`.
    pub epoch: u32,
    pub status: Status,
    /// The votes of the barrier that it waited at, until it goes on.
    pub released: Option<Reduction>,
    pub local: LocalMemory,
    /// The functions that it is in: the innermost last; while it runs, that one is the context's.
    pub frames: Vec<Frame>,
    /// Calls of functions so far.
    pub calls: u64,
    /// Instructions that it has executed.
    pub steps: u64,
    /// The line of the last one.
    pub line: u32,
    /// `cp.async` operations under way.
    pub copies: super::asynchronous::Copies,
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It waits, or asks again later, or is done.
    Blocked,
    /// It has used up its turn.
    Turn,
}

impl Frame {
    /// Lanes part: those of `taken` go to the branch's target.
    pub fn branch(&mut self, branch: Branch, taken: u32) {
        let path = self.path;
        if taken == path.mask {
            self.path.pc = branch.target;
        } else if taken != 0 {
            if branch.meet != path.meet && branch.meet != END {
                self.stack.push(Path { pc: branch.meet, ..path });
            }
            let meet = branch.meet;
            self.stack.push(Path { pc: path.pc, mask: path.mask & !taken, meet });
            self.path = Path { pc: branch.target, mask: taken, meet };
        }
    }

    /// Ends paths that have come to their meeting places or have no lanes left. Returns whether a
    /// path is left to run.
    pub fn settle(&mut self) -> bool {
        while self.path.mask == 0 || self.path.pc == self.path.meet {
            match self.stack.pop() {
                Some(path) => (self.path, self.spins) = (path, 0),
                None => {
                    self.path.mask = 0;
                    return false;
                }
            }
        }
        true
    }

    /// Counts a strong access, or a test that was in vain. A path that has made many may wait for
    /// another, which goes on then: threads of a warp make progress each for itself (PTX ISA 3.2,
    /// on `sm_70` and later).
    pub fn spin(&mut self) {
        const MANY: u32 = 1 << 12;
        self.spins += 1;
        if self.spins >= MANY {
            self.spins = 0;
            let _ = self.other_side() || self.part();
        }
    }

    /// Where the paths of the stack begin that meet where this one does.
    fn sides(&self) -> usize {
        let below = self.stack.iter().rposition(|other| other.meet != self.path.meet);
        below.map_or(0, |below| below + 1)
    }

    /// Another side of the branch goes on, each in turn. Returns whether there is one.
    pub fn other_side(&mut self) -> bool {
        let (sides, path) = (self.sides(), self.path);
        if sides == self.stack.len() {
            return false;
        }
        self.stack.insert(sides, path);
        self.path = self.stack.pop().expect("one was added");
        self.settle()
    }

    /// Lanes that wait where the sides of the branch meet go on, and meet the others later. Returns
    /// whether there are any.
    pub fn part(&mut self) -> bool {
        let (sides, path) = (self.sides(), self.path);
        let Some(below) = sides.checked_sub(1) else { return false };
        let meeting = self.stack[below];
        let under_way = self.stack[sides..].iter().fold(path.mask, |all, side| all | side.mask);
        let there = meeting.mask & !under_way;
        if meeting.pc != path.meet || there == 0 {
            return false;
        }
        self.stack.remove(below);
        self.stack.push(path);
        self.stack[below..].iter_mut().for_each(|side| side.meet = meeting.meet);
        self.path = Path { mask: there, ..meeting };
        self.settle()
    }

    /// Lanes leave the function.
    pub fn leave(&mut self, lanes: u32) {
        self.path.mask &= !lanes;
        for path in &mut self.stack {
            path.mask &= !lanes;
        }
    }
}

impl Context<'_> {
    /// Runs the warp until it blocks or has executed `turn` instructions.
    pub fn run(&mut self, turn: u64) -> Result<Stop, Box<Fault>> {
        let limit = self.grid.options.step_limit;
        if self.warp.steps > limit {
            let message = format!("the warp has executed more than {limit} instructions");
            return Err(Fault::new(ReportKind::StepLimit, message));
        }
        let counts_lines = self.grid.options.statistics;
        // Paths that have waited, one after the other.
        let mut waited = 0;
        for _ in 0..turn {
            let code = self.code;
            let instruction = &code[self.frame.path.pc as usize];
            let active = self.frame.path.mask;
            self.mask = active;
            if instruction.guard != TRUE {
                self.mask &= self.predicate(instruction.guard);
            }
            self.warp.line = instruction.line;
            self.frame.path.pc += 1;
            if instruction.watched && self.mask != 0 {
                self.touch(instruction)?;
            }
            if self.mask != 0 {
                if !self.frame.marks.is_empty() {
                    self.follow_marks(instruction)?;
                }
                match (instruction.run)(self, instruction)? {
                    Step::Next => {}
                    step @ (Step::Wait | Step::Retry) => {
                        self.frame.path.pc -= 1;
                        waited += 1;
                        let all_have_waited = waited > self.frame.stack.len();
                        if step == Step::Wait || all_have_waited || !self.frame.other_side() {
                            return Ok(Stop::Blocked);
                        }
                        continue;
                    }
                    Step::Done => return Ok(Stop::Blocked),
                }
            }
            waited = 0;
            self.warp.steps += 1;
            self.statistics.instructions[instruction.class as usize] += 1;
            if counts_lines && self.mask != 0 {
                self.statistics.count_line(instruction.line);
            }
            if self.frame.path.pc == self.frame.path.meet && !self.frame.settle() {
                let message = "lanes have lost their way";
                return Err(Fault::new(ReportKind::Divergence, message));
            }
        }
        Ok(Stop::Turn)
    }

    /// Lanes of `mask` leave the function by `ret`.
    pub fn return_from(&mut self, mask: u32) -> Outcome {
        if self.warp.frames.is_empty() {
            return self.exit(mask);
        }
        self.frame.leave(mask);
        if self.frame.settle() {
            return Ok(Step::Next);
        }
        self.pop();
        Ok(Step::Next)
    }

    /// Goes back to the caller's frame, once for each that has no lanes left.
    fn pop(&mut self) {
        while let Some(caller) = self.warp.frames.pop() {
            let frame = std::mem::replace(&mut self.frame, caller);
            for (from, to, bytes) in &frame.results {
                self.warp.local.copy(*from, *to, *bytes, frame.entered);
            }
            self.warp.local.pop(frame.local);
            registers::give_back(frame.registers);
            let function = self.frame.function;
            self.code = &self.grid.program.functions[function].code;
            self.constants = &self.grid.constants[self.rank][function];
            if self.frame.settle() {
                break;
            }
        }
    }

    /// Lanes of `mask` exit.
    pub fn exit(&mut self, mask: u32) -> Outcome {
        self.warp.live &= !mask;
        self.cluster.hopper.exit(self.rank, self.warp.index, mask);
        self.frame.leave(mask);
        for frame in &mut self.warp.frames {
            frame.leave(mask);
        }
        if self.warp.live == 0 {
            self.order_exit()?;
            self.warp.status = Status::Done;
            return Ok(Step::Done);
        }
        if !self.frame.settle() {
            self.pop();
        }
        Ok(Step::Next)
    }
}
