//! A thread's asynchronous groups: `cp.async` and `cp.async.bulk`.
//!
//! PTX ISA, "cp.async.commit_group", "cp.async.wait_group" and their bulk forms. Operations belong
//! to no group until a commit puts them into one; a wait for N lets the N latest groups go on.

use std::collections::VecDeque;

/// The groups of one thread (or of one warp, whose lanes all did the same), of operations `T`.
#[derive(Clone, Debug)]
pub struct AsyncGroups<T> {
    open: Vec<T>,
    /// Each group, and whether its sources have been read.
    groups: VecDeque<(Vec<T>, bool)>,
}

impl<T> Default for AsyncGroups<T> {
    fn default() -> Self {
        AsyncGroups { open: Vec::new(), groups: VecDeque::new() }
    }
}

impl<T: Clone> AsyncGroups<T> {
    /// An operation starts.
    pub fn push(&mut self, operation: T) {
        self.open.push(operation);
    }

    /// `commit_group`: what has started since the last one is a group, which may be empty.
    pub fn commit(&mut self) {
        self.groups.push_back((std::mem::take(&mut self.open), false));
    }

    /// `wait_group N`: the operations that must be complete now, oldest first; they leave.
    pub fn wait(&mut self, latest: usize) -> Vec<T> {
        let done = self.groups.len().saturating_sub(latest);
        self.groups.drain(..done).flat_map(|(group, _)| group).collect()
    }

    /// `wait_group.read N`: the operations that must have read their sources now and had not; they
    /// stay, until a plain wait.
    pub fn wait_read(&mut self, latest: usize) -> Vec<T> {
        let done = self.groups.len().saturating_sub(latest);
        let unread = self.groups.iter_mut().take(done).filter(|(_, read)| !read);
        let operations = unread.flat_map(|(group, read)| {
            *read = true;
            group.iter().cloned()
        });
        operations.collect()
    }

    /// `cp.async.wait_all`: everything that has started.
    pub fn wait_all(&mut self) -> Vec<T> {
        self.commit();
        self.wait(0)
    }

    /// Takes operations out of their groups, which stay: they are complete for another reason.
    pub fn take_where(&mut self, is_complete: impl Fn(&T) -> bool) -> Vec<T> {
        let groups = self.groups.iter_mut().map(|(group, _)| group);
        let all = groups.chain([&mut self.open]);
        all.flat_map(|group| group.extract_if(.., |operation| is_complete(operation))).collect()
    }

    /// Operations that have started and are not complete.
    pub fn pending(&self) -> impl Iterator<Item = &T> {
        self.groups.iter().flat_map(|(group, _)| group).chain(&self.open)
    }

    /// Operations that have started since the last commit.
    pub fn open(&self) -> &[T] {
        &self.open
    }

    /// For a report.
    pub fn describe(&self) -> String {
        let committed: usize = self.groups.iter().map(|(group, _)| group.len()).sum();
        format!(
            "{} operations in {} groups and {} that no group has",
            committed,
            self.groups.len(),
            self.open.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_groups_go_on() {
        let mut groups = AsyncGroups::default();
        for operation in 0..5 {
            groups.push(operation);
            if operation != 1 {
                groups.commit();
            }
        }
        assert_eq!(groups.wait(2), [0, 1, 2]);
        assert_eq!(groups.wait(2), []);
        groups.push(9);
        assert_eq!(groups.wait(0), [3, 4]);
        assert_eq!(groups.describe(), "0 operations in 0 groups and 1 that no group has");
        assert_eq!(groups.wait_all(), [9]);
    }

    #[test]
    fn empty_groups_count() {
        let mut groups = AsyncGroups::default();
        groups.push('a');
        groups.commit();
        groups.commit();
        groups.commit();
        assert_eq!(groups.wait(2), ['a']);
    }

    #[test]
    fn some_are_complete_before_their_group() {
        let mut groups = AsyncGroups::default();
        groups.push(1);
        groups.push(2);
        groups.commit();
        groups.push(3);
        assert_eq!(groups.take_where(|operation| *operation != 2), [1, 3]);
        assert_eq!(groups.wait(0), [2]);
        assert_eq!(groups.pending().count(), 0);
    }

    #[test]
    fn sources_are_read_before_all_is_done() {
        let mut groups = AsyncGroups::default();
        groups.push(1);
        groups.commit();
        groups.push(2);
        groups.commit();
        assert_eq!(groups.wait_read(1), [1]);
        assert_eq!(groups.wait_read(0), [2]);
        assert_eq!(groups.pending().count(), 2);
        assert_eq!(groups.wait(0), [1, 2]);
    }
}
