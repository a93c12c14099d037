//! How many prompt rows a step may have beside decode rows, so that streams keep flowing.

/// Measures how long rows take and turns a target into a number of rows.
///
/// Times are the caller's; a result never depends on them, since rows do not depend on chunks.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Time that a step with decode rows should not exceed, ns.
    target: u64,
    /// Smoothed time per row of steps with prompt rows, ns; 0 = not measured yet.
    per_row: u64,
    /// Smoothed time of a step without prompt rows, ns; 0 = not measured yet.
    per_step: u64,
}

/// Prompt rows that a step always gets, so that long prompts end under any load.
const LEAST_ROWS: u32 = 16;

impl Pacing {
    /// A pace with a target in nanoseconds.
    pub fn new(target: u64) -> Self {
        Self { target, per_row: 0, per_step: 0 }
    }

    /// Rows for prompts in a step of at most `room` rows, given whether it has decode rows.
    pub fn prompt_rows(&self, decoding: bool, room: u32) -> u32 {
        if !decoding || self.per_row == 0 {
            return room;
        }
        let rows = u32::try_from(self.target / self.per_row).unwrap_or(u32::MAX);
        room.min(rows.max(LEAST_ROWS))
    }

    /// Steps without prompt rows that fit into the target; 1 until one was measured.
    pub fn steps(&self) -> u32 {
        let steps = self.target.checked_div(self.per_step).unwrap_or(1);
        u32::try_from(steps).unwrap_or(u32::MAX).max(1)
    }

    /// Learns from `steps` steps without prompt rows that took `time` ns together.
    pub fn record_steps(&mut self, steps: u32, time: u64) {
        smooth(&mut self.per_step, time, steps);
    }

    /// Learns from a step with prompt rows, of `rows` rows in all, that took `time` ns. Steps of few rows say nothing
    /// about prompts.
    pub fn record_rows(&mut self, rows: u32, time: u64) {
        if rows >= LEAST_ROWS && time > 0 {
            smooth(&mut self.per_row, time, rows);
        }
    }
}

/// Moves the average time of one towards that of `count` which took `time` ns together.
fn smooth(average: &mut u64, time: u64, count: u32) {
    let sample = (time / u64::from(count.max(1))).max(1);
    *average = if *average == 0 { sample } else { average.saturating_mul(3).saturating_add(sample) / 4 };
}
