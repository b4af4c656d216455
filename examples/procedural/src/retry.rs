// TODO: give up after a while
pub fn retry() {
    loop {} // FIXME: sleep
}
