//! How a list becomes another: the edit script behind the printed differences.
//!
//! Not a shortest script: a greedy search from both ends with a budget, after the description in
//! `go-cmp/cmp/internal/diff`, because the texts of findings show which elements were paired. The reference begins at a
//! random end; we begin at the front.

/// One step of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The same element on both sides.
    Same,
    /// An element of the old list alone.
    Removed,
    /// An element of the new list alone.
    Inserted,
    /// Two elements that are alike.
    Changed,
}

/// How much of two elements is equal, counted in leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Likeness {
    pub(super) same: usize,
    pub(super) different: usize,
}

impl Likeness {
    /// Of two elements that are equal or have nothing in common.
    pub(super) fn of_equality(is_equal: bool) -> Self {
        if is_equal {
            Self {
                same: 1,
                different: 0,
            }
        } else {
            Self {
                same: 0,
                different: 2,
            }
        }
    }

    fn is_equal(self) -> bool {
        self.different == 0
    }

    fn is_similar(self) -> bool {
        self.same + 1 >= self.different
    }
}

/// A way through the grid of old (`x`) and new (`y`) elements, forwards or backwards.
struct Path {
    is_forward: bool,
    x: isize,
    y: isize,
    edits: Vec<Edit>,
}

impl Path {
    fn push(&mut self, edit: Edit) {
        let step = if self.is_forward { 1 } else { -1 };
        if edit != Edit::Inserted {
            self.x += step;
        }
        if edit != Edit::Removed {
            self.y += step;
        }
        self.edits.push(edit);
    }

    /// Goes to (`x`, `y`), pairing what is alike.
    fn connect(&mut self, x: isize, y: isize, likeness: &impl Fn(usize, usize) -> Likeness) {
        let (mut width, mut height) = if self.is_forward {
            (x - self.x, y - self.y)
        } else {
            (self.x - x, self.y - y)
        };
        while width > 0 && height > 0 {
            let back = isize::from(!self.is_forward);
            let like = at(likeness, self.x - back, self.y - back);
            let edit = if like.is_equal() {
                Edit::Same
            } else if like.is_similar() {
                Edit::Changed
            } else if self.is_forward {
                if width >= height {
                    Edit::Removed
                } else {
                    Edit::Inserted
                }
            } else if height >= width {
                Edit::Inserted
            } else {
                Edit::Removed
            };
            self.push(edit);
            width -= isize::from(edit != Edit::Inserted);
            height -= isize::from(edit != Edit::Removed);
        }
        for _ in 0..width.max(0) {
            self.push(Edit::Removed);
        }
        for _ in 0..height.max(0) {
            self.push(Edit::Inserted);
        }
    }
}

/// The likeness of two elements whose indices the search has bounded.
fn at(likeness: &impl Fn(usize, usize) -> Likeness, x: isize, y: isize) -> Likeness {
    match (usize::try_from(x), usize::try_from(y)) {
        (Ok(x), Ok(y)) => likeness(x, y),
        _ => Likeness::of_equality(false),
    }
}

/// 0, -1, 1, -2, 2, …
fn zigzag(index: isize) -> isize {
    if index % 2 == 0 {
        index / 2
    } else {
        -(index + 1) / 2
    }
}

/// The edits that make a list of `old` elements one of `new` elements.
pub(super) fn script(
    old: usize,
    new: usize,
    likeness: impl Fn(usize, usize) -> Likeness,
) -> Vec<Edit> {
    let (nx, ny) = (old.cast_signed(), new.cast_signed());
    let mut forward = Path {
        is_forward: true,
        x: 0,
        y: 0,
        edits: Vec::new(),
    };
    let mut backward = Path {
        is_forward: false,
        x: nx,
        y: ny,
        edits: Vec::new(),
    };
    // The frontiers run ahead of the paths along a diagonal.
    let (mut front, mut back) = ((0, 0), (nx, ny));
    let mut budget = 4 * (nx + ny);
    let mut is_forward = true;
    while front.0 < back.0 && front.1 < back.1 && budget != 0 {
        if is_forward {
            search_forward(&mut forward, &backward, &mut front, &mut budget, &likeness);
        } else {
            search_backward(&mut backward, &forward, &mut back, &mut budget, &likeness);
        }
        is_forward = !is_forward;
    }
    forward.connect(backward.x, backward.y, &likeness);
    forward.edits.extend(backward.edits.into_iter().rev());
    forward.edits
}

fn search_forward(
    path: &mut Path,
    other: &Path,
    front: &mut (isize, isize),
    budget: &mut isize,
    likeness: &impl Fn(usize, usize) -> Likeness,
) {
    let (mut is_right_done, mut is_left_done) = (false, false);
    for index in 0.. {
        if (is_right_done && is_left_done) || *budget <= 0 {
            break;
        }
        let z = zigzag(index);
        let (x, y) = (front.0 + z, front.1 - z);
        if x >= other.x || y < path.y {
            is_right_done = true;
        } else if y >= other.y || x < path.x {
            is_left_done = true;
        } else if at(likeness, x, y).is_equal() {
            path.connect(x, y, likeness);
            path.push(Edit::Same);
            while path.x < other.x && path.y < other.y && at(likeness, path.x, path.y).is_equal() {
                path.push(Edit::Same);
            }
            *front = (path.x, path.y);
            break;
        } else {
            *budget -= 1;
        }
    }
    if other.x - front.0 >= other.y - front.1 {
        front.0 += 1;
    } else {
        front.1 += 1;
    }
}

fn search_backward(
    path: &mut Path,
    other: &Path,
    back: &mut (isize, isize),
    budget: &mut isize,
    likeness: &impl Fn(usize, usize) -> Likeness,
) {
    let (mut is_left_done, mut is_right_done) = (false, false);
    for index in 0.. {
        if (is_left_done && is_right_done) || *budget <= 0 {
            break;
        }
        let z = zigzag(index);
        let (x, y) = (back.0 - z, back.1 + z);
        if other.x >= x || path.y < y {
            is_left_done = true;
        } else if other.y >= y || path.x < x {
            is_right_done = true;
        } else if at(likeness, x - 1, y - 1).is_equal() {
            path.connect(x, y, likeness);
            path.push(Edit::Same);
            while other.x < path.x
                && other.y < path.y
                && at(likeness, path.x - 1, path.y - 1).is_equal()
            {
                path.push(Edit::Same);
            }
            *back = (path.x, path.y);
            break;
        } else {
            *budget -= 1;
        }
    }
    if back.0 - other.x >= back.1 - other.y {
        back.0 -= 1;
    } else {
        back.1 -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(old: &str, new: &str) -> String {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        script(old.len(), new.len(), |x, y| {
            Likeness::of_equality(old[x] == new[y])
        })
        .into_iter()
        .map(|edit| match edit {
            Edit::Same => '.',
            Edit::Removed => 'X',
            Edit::Inserted => 'Y',
            Edit::Changed => 'M',
        })
        .collect()
    }

    #[test]
    fn scripts_pair_what_is_equal() {
        for (old, new, expected) in [
            ("", "", ""),
            ("abc", "abc", "..."),
            ("", "ab", "YY"),
            ("ab", "", "XX"),
            ("abc", "abcd", "...Y"),
            ("xabc", "abc", "X..."),
        ] {
            assert_eq!(of(old, new), expected, "{old} -> {new}");
        }
    }

    #[test]
    fn zigzag_alternates() {
        assert_eq!((0..5).map(zigzag).collect::<Vec<_>>(), [0, -1, 1, -2, 2]);
    }

    proptest::proptest! {
        #[test]
        fn a_script_consumes_both_lists(old in "[ab]{0,12}", new in "[ab]{0,12}") {
            let edits = of(&old, &new);
            assert_eq!(edits.matches(['.', 'X', 'M']).count(), old.len());
            assert_eq!(edits.matches(['.', 'Y', 'M']).count(), new.len());
        }
    }
}
