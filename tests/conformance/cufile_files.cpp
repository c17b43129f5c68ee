// cuFile's handles and buffers: what may be registered, what may not, and what is left after.
#include <sys/mman.h>

#include <cstdio>

#include "conformance/cufile_rig.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

cufile::CUfileHandle_t register_file(Run& run, int descriptor, int type = 1) {
  cufile::CUfileHandle_t handle = nullptr;
  auto description = description_of(descriptor, type);
  (void)run.cufile().handle_register(&handle, &description);
  run.yes("a handle", handle != nullptr);
  return handle;
}

void drop(Run& run, cufile::CUfileHandle_t handle) {
  if (handle != nullptr) run.cufile().handle_deregister(handle);
}

void plain(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  drop(run, register_file(run, file.open()));
  (void)run.cufile().use_count();
}

void direct(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const int descriptor = file.open(system::FileAccess::read_write, true);
  run.yes("opened with O_DIRECT", descriptor >= 0);
  drop(run, register_file(run, descriptor));
}

void by_access(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  for (const auto access : {system::FileAccess::read, system::FileAccess::write}) {
    drop(run, register_file(run, file.open(access)));
  }
}

void same_descriptor(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const int descriptor = file.open();
  const auto first = register_file(run, descriptor);
  const auto second = register_file(run, descriptor);
  drop(run, second);
  drop(run, first);
  drop(run, register_file(run, descriptor));
}

void two_descriptors(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const auto first = register_file(run, file.open());
  const auto second = register_file(run, file.open());
  run.yes("two", first != second);
  drop(run, first);
  drop(run, second);
}

void wrong_arguments(Run& run) {
  start_cuda(run);
  cufile::CUfileHandle_t handle = nullptr;
  auto description = description_of(-1);
  (void)run.cufile().handle_register(nullptr, &description);
  (void)run.cufile().handle_register(&handle, nullptr);
  (void)run.cufile().handle_register(&handle, &description);
  description = description_of(4711);
  (void)run.cufile().handle_register(&handle, &description);
  (void)run.cufile().use_count();
}

void wrong_types(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const int descriptor = file.open();
  for (const int type : {0, 2, 99}) {
    run.note("type " + std::to_string(type));
    drop(run, register_file(run, descriptor, type));
  }
}

void special_files(Run& run) {
  start_cuda(run);
  run.note("directory");
  const int folder = ::open(run.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  drop(run, register_file(run, folder));
  ::close(folder);
  run.note("pipe");
  int ends[2];
  if (::pipe(ends) == 0) {
    drop(run, register_file(run, ends[0]));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  run.note("device");
  const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  drop(run, register_file(run, zero));
  ::close(zero);
}

void append(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const int descriptor = file.open();
  (void)::fcntl(descriptor, F_SETFL, O_APPEND);
  drop(run, register_file(run, descriptor));
  (void)::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  drop(run, register_file(run, descriptor));
}

void empty_file(Run& run) {
  start_cuda(run);
  TestFile file(run, 0);
  drop(run, register_file(run, file.open()));
}

void closed_descriptor(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  system::OpenOptions options;
  const auto opened = run.host.storage().open(file.path(), options);
  if (!opened.ok()) return;
  const auto handle = register_file(run, opened->descriptor);
  (void)run.host.storage().close(*opened);
  drop(run, handle);
}

void buffers(Run& run) {
  start_cuda(run);
  const cuda::CUdeviceptr device = run.allocate(4 * mib);
  auto* base = reinterpret_cast<void*>(device);
  (void)run.cufile().buf_register(base, mib, 0);
  (void)run.cufile().use_count();
  run.note("again; inside; longer than the memory; nothing");
  (void)run.cufile().buf_register(base, mib, 0);
  (void)run.cufile().buf_register(reinterpret_cast<void*>(device + 2 * mib), mib, 0);
  (void)run.cufile().buf_register(reinterpret_cast<void*>(device + 3 * mib), 900 * mib, 0);
  (void)run.cufile().buf_register(reinterpret_cast<void*>(device + mib), 0, 0);
  (void)run.cufile().buf_register(nullptr, mib, 0);
  (void)run.cufile().buf_deregister(base);
  (void)run.cufile().buf_deregister(base);
  (void)run.cufile().buf_deregister(reinterpret_cast<void*>(device + 2 * mib));
  run.free(device);
}

void buffer_flags(Run& run) {
  start_cuda(run);
  const cuda::CUdeviceptr device = run.allocate(mib);
  auto* base = reinterpret_cast<void*>(device);
  for (const int flags : {0, 1, 2, 4, 99}) {
    run.note("flags " + std::to_string(flags));
    (void)run.cufile().buf_register(base, mib, flags);
    (void)run.cufile().buf_deregister(base);
  }
  run.free(device);
}

void other_buffers(Run& run) {
  start_cuda(run);
  run.note("pageable");
  auto pageable = pattern(mib, 1);
  if (run.cufile().buf_register(pageable.data(), mib, 0).err == 0) {
    (void)run.cufile().buf_deregister(pageable.data());
  }
  run.note("pinned");
  std::byte* pinned = run.pinned(mib);
  if (run.cufile().buf_register(pinned, mib, 0).err == 0) {
    (void)run.cufile().buf_deregister(pinned);
  }
  run.free_pinned(pinned);
  run.note("managed");
  cuda::CUdeviceptr managed = 0;
  (void)run.quiet().mem_alloc_managed(&managed, mib, cuda::managed_attach_global);
  auto* base = reinterpret_cast<void*>(managed);
  if (run.cufile().buf_register(base, mib, 0).err == 0) (void)run.cufile().buf_deregister(base);
  run.free(managed);
}

void buffers_after_close(Run& run) {
  start_cuda(run);
  const cuda::CUdeviceptr device = run.allocate(mib);
  auto* base = reinterpret_cast<void*>(device);
  run.note("never opened");
  (void)run.cufile().buf_deregister(base);
  (void)run.cufile().driver_open();
  (void)run.cufile().buf_register(base, mib, 0);
  (void)run.cufile().driver_close();
  run.note("closed");
  (void)run.cufile().use_count();
  (void)run.cufile().buf_deregister(base);
  run.free(device);
}

void unknown_buffer(Run& run) {
  start_cuda(run);
  (void)run.cufile().driver_open();
  (void)run.cufile().buf_deregister(nullptr);
  (void)run.cufile().buf_deregister(reinterpret_cast<void*>(0x1000));
  (void)run.cufile().driver_close();
}

void handles_after_close(Run& run) {
  start_cuda(run);
  TestFile file(run, mib);
  const int descriptor = file.open();
  (void)register_file(run, descriptor);
  (void)run.cufile().driver_close();
  (void)run.cufile().use_count();
  drop(run, register_file(run, descriptor));
}

}  // namespace

void add_cufile_files(Catalogue& all) {
  Needs without = cufile_needs();
  const Needs compat = compat_needs();
  const std::pair<const char*, void (*)(Run&)> both[] = {{"plain", plain}, {"direct", direct}};
  for (const auto& [name, body] : both) {
    all.add(std::string("cufile.handles.no_udev.") + name, body, without);
    all.add(std::string("cufile.handles.compat.") + name, body, compat);
  }
  Needs allowed = compat;
  allowed.environment.clear();
  all.add("cufile.handles.compat_allowed", plain, allowed);
  Needs forbidden = compat;
  forbidden.environment = {{"CUFILE_ALLOW_COMPAT_MODE", "false"}};
  all.add("cufile.handles.compat_forbidden", plain, forbidden);
  all.add("cufile.handles.no_udev.wrong_arguments", wrong_arguments, without);
  const std::pair<const char*, void (*)(Run&)> rest[] = {{"by_access", by_access},
                                                         {"same_descriptor", same_descriptor},
                                                         {"two_descriptors", two_descriptors},
                                                         {"wrong_arguments", wrong_arguments},
                                                         {"wrong_types", wrong_types},
                                                         {"special_files", special_files},
                                                         {"append", append},
                                                         {"empty_file", empty_file},
                                                         {"closed_descriptor", closed_descriptor},
                                                         {"after_close", handles_after_close}};
  for (const auto& [name, body] : rest) {
    all.add(std::string("cufile.handles.") + name, body, compat);
  }
  all.add("cufile.buffers.gpu", buffers, compat);
  all.add("cufile.buffers.gpu.no_udev", buffers, without);
  // Without a file nothing asks udev.
  Needs no_file = compat;
  no_file.udev = false;
  all.add("cufile.buffers.flags", buffer_flags, no_file);
  all.add("cufile.buffers.other", other_buffers, no_file);
  all.add("cufile.buffers.after_close", buffers_after_close, no_file);
  all.add("cufile.buffers.unknown", unknown_buffer, no_file);
}

}  // namespace nobounce::conformance
