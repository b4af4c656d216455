//! Processes that are sent home.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::books::{Books, types};
use crate::house::{House, Place, Plan};
use crate::http::Stream;
use crate::load::submit;
use crate::model::Model;
use crate::verdict::judge;

/// How long going home may take.
const HOME_WAIT: Duration = Duration::from_secs(10);

#[test]
fn a_runner_that_is_sent_home_gives_its_run_to_another() {
    let model = Model::holding("plain-1", 0..1, &Gate::new());
    let plan = Plan { name: "drain-runner", place: Place::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let mut house = House::build(&plan, &model);
    let job = submit(&house.addresses(), "plain-1");
    model.wait_for("plain-1", 1);
    house.add_runner(1);
    house.runners[0].signal(Signal::TERM);
    assert!(house.runners[0].ended().success(), "{}", house.runners[0].log());

    let books = Books::read(&house);
    let journal = &books.journals[&job.session_id];
    let expected = ["run_start", "attempt_started", "attempt_started", "message", "result", "run_completed"];
    assert_eq!(types(journal), expected, "{journal:?}");
    house.kill_all();
    judge(&books, &[job], &model.asked()).check(&house.folder.display().to_string());
}

#[test]
fn a_coordinator_that_is_sent_home_lets_go_of_its_readers() {
    let model = Model::holding("plain-1", 0..1, &Gate::new());
    let plan =
        Plan { name: "drain-coordinator", place: Place::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let house = House::build(&plan, &model);
    let job = submit(&house.addresses(), "plain-1");
    model.wait_for("plain-1", 1);
    let own = format!("/sessions/{}/events/stream", job.session_id);
    let mut streams = ["/events/stream", &own]
        .map(|path| Stream::open(house.address(), path, Some("0"), HOME_WAIT * 2).unwrap());
    streams.iter_mut().for_each(|stream| assert!(stream.next().is_some()));

    let began = Instant::now();
    house.coordinators[0].signal(Signal::TERM);
    let status = house.coordinators[0].ended();
    assert!(status.success() && began.elapsed() < HOME_WAIT, "{status} after {:?}", began.elapsed());
    for stream in &mut streams {
        while stream.next().is_some() {}
    }
    // Whoever works goes on with it when the coordinator is back.
    house.coordinators[0].restart();
    house.runners[0].kill();
    house.runners[0].restart();
    let books = Books::read(&house);
    house.kill_all();
    judge(&books, &[job], &model.asked()).check(&house.folder.display().to_string());
}
