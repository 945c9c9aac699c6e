//! Pools of many nodes. What single nodes lead to is in `cases/import`.

use super::{import, matches_the_files, pools, with};
use crate::support::{KUBERNETES, holds, node};

#[test]
fn a_large_cluster_is_imported() {
    let items: Vec<String> = (0..3000)
        .map(|number| {
            let block = format!("10.{}.{}.0/24", 20 + number % 40, number / 40);
            node(
                &format!("n{number:04}"),
                &format!("r{}", number % 40),
                &holds(&block),
            )
        })
        .collect();
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    matches_the_files(&folder);
    assert_eq!(pools(&folder).len(), 40);
}
