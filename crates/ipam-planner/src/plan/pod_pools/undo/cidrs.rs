//! The CIDRs of one pool, indexed: an undo file may name very many.

use ipam_cilium::observed::PodRanges;
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, RangeIndex};

pub(super) struct Cidrs(RangeIndex<Block>);

impl Cidrs {
    pub(super) fn new(ranges: Option<&PerFamily<PodRanges>>) -> Cidrs {
        let cidrs = ranges.into_iter().flat_map(PerFamily::iter);
        let cidrs = cidrs.flat_map(|ranges| &ranges.cidrs);
        Cidrs(RangeIndex::new(cidrs.map(|cidr| (cidr.range(), *cidr))))
    }

    /// Whether one CIDR has the whole block.
    pub(super) fn have(&self, block: Block) -> bool {
        let mut around = self.0.overlapping(&block.range());
        around.any(|(_, cidr)| cidr.contains(block))
    }

    /// Whether one CIDR has the whole of each of these.
    pub(super) fn have_all(&self, others: &PerFamily<PodRanges>) -> bool {
        let mut cidrs = others.iter().flat_map(|ranges| &ranges.cidrs);
        cidrs.all(|cidr| self.have(*cidr))
    }
}
