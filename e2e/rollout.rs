//! What stands in the way of a rollout: objects of others, false labels, broken versions.

mod adoption;
mod anew;
mod attack;
mod back;
mod moved;
mod rights;

pub(crate) use adoption::adoption_is_asked_for;
pub(crate) use anew::what_is_made_anew_is_let_in_first;
pub(crate) use attack::a_label_of_somebody_else_means_nothing;
pub(crate) use back::{a_forced_way_back, a_way_back_that_loses_data};
pub(crate) use moved::what_moves_stays_and_what_changes_kind_is_made_anew;
pub(crate) use rights::{
    rights_that_are_gained_are_told, rights_to_take_down_the_old_version_are_asked_for,
};
