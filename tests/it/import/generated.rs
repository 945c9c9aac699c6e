//! The import of generated clusters.

use proptest::prelude::*;

use super::{changes_nothing, import};
use crate::generated::{cases, worlds};
use crate::support::Folder;
use worlds::{Profile, name};

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_import_of_any_cluster_changes_nothing(
        world in worlds(Profile::Running),
        flags in prop::sample::select(vec!["", "--by-label rack", "--by-label none"]),
    ) {
        let folder = Folder::new(&[("cluster.json", &world.cluster_file())]);
        let flags: Vec<&str> = flags.split_whitespace().collect();
        import(&folder, &flags).expect(0);
        let plan = changes_nothing(&folder);
        let has_none = |index: &usize| world.nodes[*index].shows_nothing();
        let waiting: Vec<String> = (0..world.nodes.len()).filter(has_none).map(name).collect();
        let blocked: Vec<&str> = plan["blocked"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        prop_assert_eq!(blocked, waiting, "only nodes without a block wait");
    }
}
