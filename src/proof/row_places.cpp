// Makes, opens and removes what a row transfers between.
#include "proof/row_places.hpp"

#include <string>
#include <utility>

namespace nobounce::proof {

RowPlaces::~RowPlaces() {
  if (saved_.has_value() && remote_.has_value()) {
    const std::uint64_t bytes = saved_->length_bytes();
    (void)session_.transfer(saved_->place(), remote_->place(0, bytes),
                            {.policy = Policy::staged_only});
  }
  file_.reset();
  if (!subject_.path.empty()) (void)host_.storage().remove(subject_.path);
}

Status RowPlaces::prepare(std::uint64_t bytes_max, std::uint64_t seed) {
  const bool p2p = subject_.member == Member::p2p;
  if (p2p || subject_.writing) {
    if (Status made = allocate(source_, subject_.source_gpu, bytes_max); !made.ok()) return made;
  }
  if (p2p || !subject_.writing) {
    if (Status made = allocate(target_, subject_.target_gpu, bytes_max); !made.ok()) return made;
  }
  if (subject_.member == Member::rdma) {
    if (source_.has_value()) {
      if (Status filled = session_.fill_pattern(source_->place(), seed); !filled.ok())
        return filled;
    }
    return open_export(bytes_max);
  }
  if (source_.has_value()) return session_.fill_pattern(source_->place(), seed);
  if (Status filled = session_.fill_pattern(target_->place(), seed); !filled.ok()) return filled;
  return write_source_file(bytes_max);
}

Status RowPlaces::open(std::uint64_t bytes) {
  if (!subject_.writing || subject_.member != Member::storage) return {};
  file_.reset();
  Result<File> file =
      session_.open_file(subject_.path, {.mode = FileMode::replace, .length_bytes = bytes});
  if (!file.ok()) return file.error();
  file_.emplace(std::move(*file));
  return {};
}

Status RowPlaces::open_export(std::uint64_t bytes) {
  Result<RemoteRegion> opened = subject_.peer->open(
      subject_.export_name, subject_.writing ? RemoteAccess::write : RemoteAccess::read);
  if (!opened.ok()) return opened.error();
  remote_.emplace(std::move(*opened));
  if (remote_->length_bytes() < bytes) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "prove " + subject_.medium,
                 .cause = Cause::remote_out_of_bounds,
                 .detail = "it holds " + std::to_string(remote_->length_bytes()) +
                           " bytes, and the largest volume is " + std::to_string(bytes),
                 .remedy = "smaller --volumes, or a longer export"};
  }
  if (!subject_.writing) return {};
  Result<Region> saved = session_.allocate_host(bytes);
  if (!saved.ok()) return saved.error();
  const Outcome read =
      session_.transfer(remote_->place(0, bytes), saved->place(), {.policy = Policy::staged_only});
  if (!read.ok()) return *read.error;
  saved_.emplace(std::move(*saved));
  return {};
}

Place RowPlaces::source(std::uint64_t bytes) const {
  if (!source_.has_value() && remote_.has_value()) return remote_->place(0, bytes);
  return source_.has_value() ? source_->place(0, bytes) : file_->place(0, bytes);
}

Place RowPlaces::target(std::uint64_t bytes) const {
  if (!target_.has_value() && remote_.has_value()) return remote_->place(0, bytes);
  return target_.has_value() ? target_->place(0, bytes) : file_->place(0, bytes);
}

Status RowPlaces::allocate(std::optional<Region>& region, std::uint32_t gpu, std::uint64_t bytes) {
  Result<Region> made = session_.allocate(gpu, bytes);
  if (!made.ok()) return made.error();
  region.emplace(std::move(*made));
  return {};
}

/// The pattern goes out by way of host memory: this is preparation, not evidence.
Status RowPlaces::write_source_file(std::uint64_t bytes) {
  {
    Result<File> file =
        session_.open_file(subject_.path, {.mode = FileMode::replace, .length_bytes = bytes});
    if (!file.ok()) return file.error();
    const Outcome written =
        session_.transfer(target_->place(), file->place(), {.policy = Policy::staged_only});
    if (!written.ok()) return *written.error;
    if (Status committed = file->commit(false); !committed.ok()) return committed;
  }
  Result<File> reopened = session_.open_file(subject_.path);
  if (!reopened.ok()) return reopened.error();
  file_.emplace(std::move(*reopened));
  return {};
}

}  // namespace nobounce::proof
