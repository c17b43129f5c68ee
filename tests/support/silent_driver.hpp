// A driver whose copies never end, as far as anybody learns, and a host whose warnings are heard.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/around_host.hpp"

namespace nobounce::test {

/// A driver of which nobody learns that a copy has ended.
class SilentCuda final : public support::AroundCuda {
 public:
  explicit SilentCuda(system::Cuda& inner) : AroundCuda(inner), inner_(inner) {}
  std::atomic<bool> silent{false};
  std::function<void()> at_copy_between;  ///< called before a copy between GPUs, where it is set

  CUresult stream_query(CUstream stream) override {
    return silent ? system::cuda::error_not_ready : inner_.stream_query(stream);
  }
  CUresult event_query(CUevent event) override {
    return silent ? system::cuda::error_not_ready : inner_.event_query(event);
  }
  CUresult memcpy_peer_async(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                             CUcontext source_context, std::size_t length_bytes,
                             CUstream stream) override {
    if (at_copy_between) at_copy_between();
    return inner_.memcpy_peer_async(target, target_context, source, source_context, length_bytes,
                                    stream);
  }
  CUresult memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, std::size_t length_bytes,
                             CUstream stream) override {
    if (at_copy_between) at_copy_between();
    return inner_.memcpy_dtod_async(target, source, length_bytes, stream);
  }

 private:
  system::Cuda& inner_;
};

class HearingProcess final : public system::Process {
 public:
  explicit HearingProcess(system::Process& inner) : inner_(inner) {}
  std::uint64_t id() override { return inner_.id(); }
  bool alive(std::uint64_t process_id) override { return inner_.alive(process_id); }
  std::uint32_t user() override { return inner_.user(); }
  void warn(std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;

 private:
  system::Process& inner_;
};

class HearingHost final : public support::AroundHost {
 public:
  explicit HearingHost(system::Host& inner) : AroundHost(inner), heard(inner.process()) {}
  system::Process& process() override { return heard; }
  HearingProcess heard;
};

}  // namespace nobounce::test
