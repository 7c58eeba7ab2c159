//! Rows of a stage that no copy writes.

use super::{GROUP_ROWS, Geometry, ROW_BYTES};
use crate::SharedTile;
use cuda_std::barrier::NamedBarrier;
use cuda_std::{fence, misc, thread};

/// Writes zeros where no copy writes, since the instructions read whole tiles: rows past those that
/// are brought of the boxes of A, and of those of B, so many of so many rows.
///
/// # Safety
///
/// By the 96 threads of the first group that do not start copies.
#[inline(always)]
pub unsafe fn clear<G: Geometry>(
    rows: [u32; 2],
    boxes_b: (usize, usize),
    stages: SharedTile<u8>,
    stage_bytes: usize,
) {
    if is_cleared(rows, boxes_b.1) {
        // SAFETY: the caller's promise.
        unsafe {
            let number = (thread::thread_idx_x() - 32, 96);
            clear_rows::<G>(rows, boxes_b, stages, stage_bytes, number);
            sync_cleared::<G>();
        }
    }
}

/// Writes zeros to rows from `rows` on of the boxes of A and of B, of all stages.
///
/// # Safety
///
/// By thread number `thread` of `threads`, each once, while no copy touches these rows.
#[inline(always)]
pub unsafe fn clear_rows<G: Geometry>(
    rows: [u32; 2],
    (boxes_b, box_b): (usize, usize),
    stages: SharedTile<u8>,
    stage_bytes: usize,
    (thread, threads): (u32, usize),
) {
    let (boxes, stage_bytes) = (G::GROUPS + boxes_b, stage_bytes / G::TOGETHER);
    // SAFETY: the tiles are the block's own; the rest is the caller's promise.
    unsafe {
        let mut number = misc::afresh(0) as usize;
        while number < G::STAGES * G::TOGETHER * boxes {
            let (stage, i) = (number / boxes, number % boxes);
            let (row, first, end) = match i.checked_sub(G::GROUPS) {
                None => (i * GROUP_ROWS, rows[0], GROUP_ROWS),
                Some(i) => (G::GROUPS * GROUP_ROWS + i * box_b, rows[1], box_b),
            };
            let of_box = stages.add(stage * stage_bytes + row * ROW_BYTES).cast::<u128>();
            // Chunks of 16 bytes, 8 a row.
            let mut chunk = (8 * first + thread) as usize;
            while chunk < 8 * end {
                of_box.add(chunk).write(0);
                chunk += threads;
            }
            number += 1;
        }
        fence::async_shared();
    }
}

/// Whether copies of so many rows of A and of B leave some of a box, of which B's have `box_b`.
#[inline(always)]
pub fn is_cleared([rows_a, rows_b]: [u32; 2], box_b: usize) -> bool {
    rows_a < GROUP_ROWS as u32 || rows_b < box_b as u32
}

/// Waits until those rows are cleared.
///
/// # Safety
/// By all threads of the groups that multiply, and by those that clear.
#[inline(always)]
pub unsafe fn sync_cleared<G: Geometry>() {
    const { assert!(G::GROUPS <= 2) };
    // SAFETY: the caller's promise.
    unsafe {
        match G::GROUPS {
            1 => NamedBarrier::<4, 224>.sync(),
            _ => NamedBarrier::<4, 352>.sync(),
        }
    }
}
