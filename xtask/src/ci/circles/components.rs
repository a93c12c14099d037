//! Strongly connected components of a graph of files. The graph is given as pairs of numbers.

/// Groups of two or more of the `count` files in which each can be reached from each.
pub(super) fn circles(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let reached: Vec<Vec<bool>> = (0..count).map(|file| reachable(count, edges, file)).collect();
    let mut circles = Vec::new();
    let mut seen = vec![false; count];
    for file in 0..count {
        if seen[file] {
            continue;
        }
        let circle: Vec<usize> =
            (file..count).filter(|other| reached[file][*other] && reached[*other][file]).collect();
        for member in &circle {
            seen[*member] = true;
        }
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// Files that can be reached from `start` by at least one edge.
fn reachable(count: usize, edges: &[(usize, usize)], start: usize) -> Vec<bool> {
    let mut reached = vec![false; count];
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == file) {
            if !reached[*to] {
                reached[*to] = true;
                open.push(*to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_reach_each_other_are_grouped() {
        assert_eq!(circles(3, &[(0, 1), (1, 2), (0, 2)]), Vec::<Vec<usize>>::new());
        assert_eq!(
            circles(5, &[(0, 1), (1, 2), (2, 0), (3, 0), (3, 4), (4, 3)]),
            [vec![0, 1, 2], vec![3, 4]]
        );
        assert_eq!(circles(1, &[(0, 0)]), Vec::<Vec<usize>>::new());
    }
}
