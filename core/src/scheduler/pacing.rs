//! Pacing: the number of prompt rows, or of steps in a row, that fit a target time, so that streams keep flowing.

/// Measures the time of rows and steps and turns a target time into numbers of them.
///
/// Times are the caller's. Results never depend on them, because a row does not depend on the other rows of its step.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Longest time of a step with decode rows, ns.
    target: u64,
    /// Average time per row of steps with prompt rows, ns; 0 = not measured yet.
    per_row: u64,
    /// Average time of a step without prompt rows, ns; 0 = not measured yet.
    per_step: u64,
}

/// Prompt rows that a step can always have, so that long prompts end under any load.
const LEAST_ROWS: u32 = 16;

impl Pacing {
    /// Nothing measured yet; `target` in ns.
    pub fn new(target: u64) -> Self {
        Self { target, per_row: 0, per_step: 0 }
    }

    /// Prompt rows of a step that has room for `room` rows; `decoding` is true if it also has decode rows.
    pub fn prompt_rows(&self, decoding: bool, room: u32) -> u32 {
        if !decoding || self.per_row == 0 {
            return room;
        }
        let rows = u32::try_from(self.target / self.per_row).unwrap_or(u32::MAX);
        room.min(rows.max(LEAST_ROWS))
    }

    /// Steps without prompt rows that fit into the target time; 1 until a step is measured.
    pub fn steps(&self) -> u32 {
        let steps = self.target.checked_div(self.per_step).unwrap_or(1);
        u32::try_from(steps).unwrap_or(u32::MAX).max(1)
    }

    /// Records `steps` steps without prompt rows that took `time` ns together.
    pub fn record_steps(&mut self, steps: u32, time: u64) {
        update(&mut self.per_step, time, steps);
    }

    /// Records a step with prompt rows, of `rows` rows in all, that took `time` ns. Steps of few rows are ignored: their
    /// time is not that of prompt rows.
    pub fn record_rows(&mut self, rows: u32, time: u64) {
        if rows >= LEAST_ROWS && time > 0 {
            update(&mut self.per_row, time, rows);
        }
    }
}

/// Moves the average time of one item a quarter of the way to that of `count` items that took `time` ns together.
fn update(average: &mut u64, time: u64, count: u32) {
    let sample = (time / u64::from(count.max(1))).max(1);
    *average = if *average == 0 { sample } else { average.saturating_mul(3).saturating_add(sample) / 4 };
}
