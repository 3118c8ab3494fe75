//! How a difference is printed: which side, how wordy, with which types.

use super::text::Mark;

/// How often a text that does not show the difference is made more verbose.
pub(super) const PRESETS: u32 = 6;

/// What is printed of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Difference,
    Same,
    Removed,
    Inserted,
}

impl Mode {
    pub(super) fn mark(self) -> Mark {
        match self {
            Self::Difference => Mark::None,
            Self::Same => Mark::Same,
            Self::Removed => Mark::Removed,
            Self::Inserted => Mark::Inserted,
        }
    }
}

/// Whether the type is printed before the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    Always,
    Never,
    /// Of structs, lists and maps.
    Composite,
}

/// How a value is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) mode: Mode,
    pub(super) types: Types,
    /// Print structs by their fields, where they could print themselves.
    pub(super) plain: bool,
    pub(super) qualified: bool,
    verbosity: i32,
    limited: bool,
}

impl Style {
    /// What a whole difference begins with.
    pub(super) const FIRST: Self = Self {
        mode: Mode::Difference,
        types: Types::Always,
        plain: false,
        qualified: false,
        verbosity: 0,
        limited: false,
    };

    pub(super) fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    pub(super) fn with_types(self, types: Types) -> Self {
        Self { types, ..self }
    }

    pub(super) fn with_verbosity(self, verbosity: i32) -> Self {
        Self {
            verbosity,
            limited: true,
            ..self
        }
    }

    pub(super) fn preset(self, index: u32) -> Self {
        Self {
            verbosity: self.level().cast_signed() + 2 * index.cast_signed(),
            plain: self.plain || index > 0,
            qualified: self.qualified || index >= PRESETS,
            ..self
        }
    }

    /// The verbosity within its bounds.
    pub(super) fn level(self) -> u32 {
        self.verbosity.clamp(0, 16).cast_unsigned()
    }

    pub(super) fn is_limited(self) -> bool {
        self.limited
    }

    /// Half of the elements that a list of equal ones may show, times eight: 0, 4, 8, 16, …
    pub(super) fn shown(self) -> usize {
        if self.limited {
            ((1 << self.level()) >> 1) << 2
        } else {
            usize::MAX
        }
    }

    pub(super) fn less_verbose(self) -> Self {
        Self {
            verbosity: self.verbosity - i32::from(self.limited),
            ..self
        }
    }
}
