// The copier: a list of copies and the worker that watches them.
#include "system/copier.hpp"

#include <utility>

namespace nobounce::system {

namespace {
constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;
}  // namespace

Step Copier::Watch::step() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  if (copies_.advance(now_ns)) host_.workers().notify();
  const std::uint64_t again_ns = copies_.look_again_ns(now_ns);
  return again_ns == 0 ? Step::idle() : Step::idle_until(again_ns);
}

Copier::Copier(Host& host, CudaContexts& contexts, std::string name)
    : host_(host), name_(std::move(name)), copies_(contexts), watch_(host, copies_) {}

Copier::~Copier() {
  if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
}

Status Copier::wake_watch() {
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) {
    host_.workers().wake(*watch_id_);
    return {};
  }
  Result<WorkerId> id = host_.workers().start(watch_, name_);
  if (!id.ok()) return std::move(id).error();
  watch_id_ = *id;
  return {};
}

void Copier::copy(const core::Operation& operation, const CopyOrder& order) {
  const std::uint64_t now_ns =
      operation.submitted_ns != 0 ? operation.submitted_ns : host_.clock().now_ns();
  if (operation.attended) {
    copies_.add(operation, order, now_ns);
    return;
  }
  // Without somebody to watch it a copy could end unseen, so none is started.
  if (const Status watched = wake_watch(); !watched.ok()) {
    copies_.refuse(operation.id, watched.error());
    return;
  }
  copies_.add(operation, order, now_ns);
  (void)wake_watch();  // awake, so that it sees what was added
}

void Copier::refuse(core::OperationId operation, Error error) {
  copies_.refuse(operation, std::move(error));
}

void Copier::submitted() {
  host_.workers().notify();
}

void Copier::watch_strays() {
  // Without a watch it is looked at when others poll; until it lands its memory stays.
  (void)wake_watch();
}

void Copier::cancel(core::OperationId operation) {
  copies_.cancel(operation);
}

bool Copier::close(std::uint64_t deadline_ns) {
  if (closed_) return true;
  closed_ = true;
  copies_.cancel_all();
  const bool ended = host_.workers().wait(
      [this] {
        (void)copies_.advance(host_.clock().now_ns());
        return copies_.idle();
      },
      deadline_ns);
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) host_.workers().stop(*watch_id_);
  watch_id_.reset();
  return copies_.release() && ended;
}

}  // namespace nobounce::system
