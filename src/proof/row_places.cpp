// Makes, opens and removes what a row transfers between.
#include "proof/row_places.hpp"

#include <cstring>
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
  if (subject_.drive != nullptr) return prepare_drive(bytes_max);
  if (subject_.member == Member::rdma) {
    if (source_.has_value()) {
      if (Status filled = session_.fill_pattern(source_->place(), seed); !filled.ok())
        return filled;
    }
    if (subject_.adapter.has_value()) return open_loop(bytes_max, seed);
    return open_export(*subject_.peer, subject_.export_name, bytes_max);
  }
  if (source_.has_value()) return session_.fill_pattern(source_->place(), seed);
  if (Status filled = session_.fill_pattern(target_->place(), seed); !filled.ok()) return filled;
  return write_source_file(bytes_max);
}

Status RowPlaces::prepare_drive(std::uint64_t bytes_max) {
  if (subject_.drive->length_bytes() < bytes_max) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "prove " + subject_.medium,
                 .detail = "it holds " + std::to_string(subject_.drive->length_bytes()) +
                           " bytes, and the largest volume is " + std::to_string(bytes_max),
                 .remedy = "smaller --volumes"};
  }
  Result<Region> made = session_.allocate_host(bytes_max);
  if (!made.ok()) return made.error();
  between_.emplace(std::move(*made));
  return {};
}

Outcome RowPlaces::stage(std::uint64_t bytes) {
  if (!between_.has_value())
    return session_.transfer(source(bytes), target(bytes), {.policy = Policy::staged_only});
  const Place between = between_->place(0, bytes);
  Outcome outcome = session_.transfer(source(bytes), between);
  if (!outcome.ok()) return outcome;
  const std::uint64_t first_ns = outcome.receipt.elapsed_ns;
  outcome = session_.transfer(between, target(bytes));
  outcome.receipt.elapsed_ns += first_ns;
  // Of the whole way, which went through host memory.
  CarriageBytes way;
  way[Carriage::staged] = outcome.receipt.bytes.total();
  outcome.receipt.bytes = way;
  return outcome;
}

std::optional<std::uint64_t> RowPlaces::sum_of_staged(std::uint64_t bytes) const {
  if (!between_.has_value()) return std::nullopt;
  const auto host = std::get<HostMemory>(between_->place(0, bytes));
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0; at + sizeof sum <= bytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, host.address + at, sizeof word);
    sum += word;
  }
  return sum;
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

Status RowPlaces::open_loop(std::uint64_t bytes, std::uint64_t seed) {
  const std::string& name = session_.machine().nics.at(*subject_.adapter).name;
  Result<std::unique_ptr<AdapterLoop>> loop =
      AdapterLoop::open(session_, host_, subject_.source_gpu, name, bytes, seed);
  if (!loop.ok()) return loop.error();
  loop_ = std::move(*loop);
  return open_export(loop_->peer(), AdapterLoop::export_name, bytes);
}

Status RowPlaces::open_export(Peer& peer, const std::string& name, std::uint64_t bytes) {
  Result<RemoteRegion> opened =
      peer.open(name, subject_.writing ? RemoteAccess::write : RemoteAccess::read);
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
  if (!subject_.writing || loop_ != nullptr) return {};  // a loop's memory is nobody's
  Result<Region> saved = session_.allocate_host(bytes);
  if (!saved.ok()) return saved.error();
  const Outcome read =
      session_.transfer(remote_->place(0, bytes), saved->place(), {.policy = Policy::staged_only});
  if (!read.ok()) return *read.error;
  saved_.emplace(std::move(*saved));
  return {};
}

Place RowPlaces::source(std::uint64_t bytes) const {
  if (subject_.drive != nullptr) return subject_.drive->place(0, bytes);
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
