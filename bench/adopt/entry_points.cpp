// A few C entry points over a session, for the script that has nobounce adopt PyTorch's memory.
// Part of what is carried to a machine with a GPU; installed nowhere and promised to nobody.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nobounce/session.hpp>

#include "core/json.hpp"
#include "system/live_host.hpp"

namespace {

using namespace nobounce;

struct Adopter {
  std::unique_ptr<system::Host> host = system::make_live_host();
  std::optional<Session> session;
  std::map<std::int64_t, Region> regions;
  std::int64_t last = 0;
  std::string said;  ///< the last answer, until the next call
};

std::int64_t keep(Adopter& adopter, Result<Region> region) {
  if (!region.ok()) {
    adopter.said = to_string(region.error());
    return -1;
  }
  adopter.said = std::string(to_string(region->kind()));
  adopter.regions.emplace(++adopter.last, std::move(*region));
  return adopter.last;
}

core::Json told(const Outcome& outcome) {
  core::JsonObject bytes;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    if (outcome.receipt.bytes.by[i] == 0) continue;
    bytes.emplace_back(std::string(to_string(static_cast<Carriage>(i))),
                       outcome.receipt.bytes.by[i]);
  }
  core::JsonArray causes;
  for (std::uint8_t i = 0; i < outcome.receipt.cause_count; ++i) {
    causes.emplace_back(std::string(to_string(outcome.receipt.causes[i])));
  }
  core::JsonObject object;
  object.emplace_back("ok", outcome.ok());
  object.emplace_back("member", std::string(to_string(outcome.receipt.member)));
  object.emplace_back("bytes", std::move(bytes));
  object.emplace_back("causes", std::move(causes));
  object.emplace_back("elapsed_ns", outcome.receipt.elapsed_ns);
  if (!outcome.ok()) object.emplace_back("error", to_string(*outcome.error));
  return object;
}

/// The receipt as JSON.
const char* answer(Adopter& adopter, const Outcome& outcome) {
  adopter.said = core::dump_json(told(outcome), true);
  return adopter.said.c_str();
}

const char* wrong(Adopter& adopter, const Error& error) {
  core::JsonObject object;
  object.emplace_back("ok", false);
  object.emplace_back("error", to_string(error));
  adopter.said = core::dump_json(core::Json(std::move(object)), true);
  return adopter.said.c_str();
}

}  // namespace

extern "C" {

void* nobounce_adopter_open() {
  auto adopter = std::make_unique<Adopter>();
  SessionOptions options;
  options.warn_on_close = false;
  Result<Session> session = Session::open(*adopter->host, options);
  if (session.ok()) {
    adopter->session.emplace(std::move(*session));
  } else {
    adopter->said = to_string(session.error());
  }
  return adopter.release();
}

void nobounce_adopter_close(void* handle) {
  auto* adopter = static_cast<Adopter*>(handle);
  adopter->regions.clear();
  adopter->session.reset();
  delete adopter;
}

/// What the last call said: a kind of memory, a receipt, or an error.
const char* nobounce_adopter_said(void* handle) {
  return static_cast<Adopter*>(handle)->said.c_str();
}

/// A number for the region, or -1.
std::int64_t nobounce_adopter_adopt(void* handle, std::uint64_t address, std::uint64_t bytes,
                                    int on_gpu) {
  auto& adopter = *static_cast<Adopter*>(handle);
  if (!adopter.session.has_value()) return -1;
  if (on_gpu != 0) return keep(adopter, adopter.session->adopt(DevicePointer{address}, bytes));
  // The address comes from Python as a number.
  auto* host = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  return keep(adopter, adopter.session->adopt_host(host, bytes));
}

void nobounce_adopter_drop(void* handle, std::int64_t region) {
  static_cast<Adopter*>(handle)->regions.erase(region);
}

const char* nobounce_adopter_read(void* handle, const char* path, std::int64_t region) {
  auto& adopter = *static_cast<Adopter*>(handle);
  Result<File> file = adopter.session->open_file(path);
  if (!file.ok()) return wrong(adopter, file.error());
  const Region& target = adopter.regions.at(region);
  return answer(adopter,
                adopter.session->transfer(file->place(0, target.length_bytes()), target.place()));
}

const char* nobounce_adopter_copy(void* handle, std::int64_t source, std::int64_t target) {
  auto& adopter = *static_cast<Adopter*>(handle);
  return answer(adopter, adopter.session->transfer(adopter.regions.at(source).place(),
                                                   adopter.regions.at(target).place()));
}

}  // extern "C"
