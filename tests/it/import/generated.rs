//! The import of generated clusters.

use proptest::prelude::*;

use super::{changes_nothing, import};
use crate::generated::{cases, known, worlds};
use crate::support::{Folder, args};
use worlds::{Profile, World, name};

const FLAGS: [&str; 3] = ["", "--by-label rack", "--by-label none"];

/// Fails unless the files of an import keep the cluster as it is.
fn keeps(world: &World, flags: &str) -> Result<(), TestCaseError> {
    let folder = Folder::new(&[("cluster.json", &world.cluster_file())]);
    import(&folder, &args(flags)).expect(0);
    let plan = changes_nothing(&folder);
    let has_none = |index: &usize| world.nodes[*index].shows_nothing();
    let waiting: Vec<String> = (0..world.nodes.len()).filter(has_none).map(name).collect();
    let blocked = plan["blocked"].as_array().unwrap().iter();
    let blocked: Vec<&str> = blocked.map(|one| one["name"].as_str().unwrap()).collect();
    prop_assert_eq!(blocked, waiting, "only nodes without a block wait");
    Ok(())
}

#[test]
fn the_import_of_known_clusters_changes_nothing() {
    for world in known(Profile::Running) {
        for flags in FLAGS {
            keeps(&world, flags).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_import_of_any_cluster_changes_nothing(
        world in worlds(Profile::Running),
        flags in prop::sample::select(FLAGS.to_vec()),
    ) {
        keeps(&world, flags)?;
    }
}
