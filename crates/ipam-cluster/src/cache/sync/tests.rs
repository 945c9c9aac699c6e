//! How long a cache waits between two lists.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_leader_pauses_ten_times_as_long_as_the_last_list_took() {
    let paused = async |role: Role, listing: u64| {
        let began = Instant::now();
        sleep(Duration::from_millis(listing)).await;
        LastList::new(began, role).remaining().as_millis()
    };
    assert_eq!(paused(Role::Leader, 20).await, 200);
    assert_eq!(paused(Role::Leader, 60_000).await, 10_000);
    assert_eq!(
        paused(Role::Standby, 60_000).await,
        0,
        "a new leader begins at once"
    );
}
