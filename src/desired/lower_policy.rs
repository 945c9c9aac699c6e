//! The `Policy` document becomes a [`Policy`].

use super::Policy;
use super::context::{Context, keys};
use super::schema::{PolicySpec, TextList, WrittenWritePath};
use crate::model::{WritePath, WritePathChoice};

pub(super) fn lower(context: &mut Context<'_>, spec: &PolicySpec) -> Policy {
    let write_path = match spec.write_path {
        WrittenWritePath::Auto => WritePathChoice::Auto,
        WrittenWritePath::NodeSpec => WritePathChoice::Forced(WritePath::NodeSpec),
        WrittenWritePath::NodeAnnotation => WritePathChoice::Forced(WritePath::NodeAnnotation),
    };
    let mut ranges = |list: &TextList, key: &str| -> Vec<crate::net::Range> {
        context.ranges(list, &keys(["spec", key])).into_iter().map(|(range, _)| range).collect()
    };
    let excluded = ranges(&spec.excluded, "excluded");
    let own_address_space = ranges(&spec.own_address_space, "ownAddressSpace");
    Policy { write_path, excluded, own_address_space }
}
