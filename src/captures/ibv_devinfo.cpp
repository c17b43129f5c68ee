// `ibv_devinfo`, `ibstatus`, `ibstat`, `rdma link`: adapters, their ports and rates.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class IbvDevinfoParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"hca_id:", "No IB devices found",
                                                 "Infiniband device '", "CA '", "physical_state"};
    return {words, 30};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    // ibv_devinfo and perftest where nothing is seen, as in a container without /dev/infiniband.
    if (starts(text, "No IB devices found")) {
      ensure(line);
      set_fact(facts(), "devices_found", false);
      sign(core::SignKind::port_down, line, "", "", "none");
      return true;
    }
    if (take_device(text, line) || take_link(text, line)) return true;
    if (device_.empty() || !near(line, 30)) return false;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || colon > 30) return false;
    return take_value(lower(trim(text.substr(0, colon))), trim(text.substr(colon + 1)), line);
  }

  void end() override {
    device_.clear();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 60)) open("ibv_devinfo", line);
    reach(line);
  }

  bool take_device(std::string_view text, const Line& line) {
    std::string_view name;
    if (starts(text, "hca_id:")) name = first_word(text.substr(7));
    if (starts(text, "Infiniband device '")) name = until(text.substr(19), "'");
    if (starts(text, "CA '")) name = until(text.substr(4), "'");
    if (name.empty()) return false;
    ensure(line);
    device_ = std::string(name);
    add_item(facts(), "devices", device_);
    return true;
  }

  /// `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0`.
  bool take_link(std::string_view text, const Line& line) {
    if (!starts(text, "link ") || !has(text, " state ")) return false;
    const std::string_view name = until(first_word(text.substr(5)), "/");
    if (name.empty() || !has(text, "physical_state")) return false;
    ensure(line);
    const std::string held = std::move(device_);
    device_ = std::string(name);
    add_item(facts(), "devices", device_);
    set_state(first_word(*after(text, " state ")), line);
    device_ = held;
    return true;
  }

  void set_port(std::string_view key, core::Json value) {
    core::JsonObject port;
    if (const core::Json* ports = fact(facts(), "ports"); ports != nullptr) {
      if (const core::Json* held = ports->find(device_);
          held != nullptr && held->as_object() != nullptr)
        port = *held->as_object();
    }
    set_fact(port, key, std::move(value));
    set_entry(facts(), "ports", device_, std::move(port));
  }

  void set_state(std::string_view state, const Line& line) {
    set_port("state", state);
    const std::string lowered = lower(state);
    const bool down = has(lowered, "down") || has(lowered, "disabled") || has(lowered, "polling");
    // A link without a subnet manager that sets the port up: nothing travels there, either.
    const bool waits = has(lowered, "init") || has(lowered, "armed");
    const bool active = has(lowered, "active");
    if (waits) sign(core::SignKind::port_down, line, device_, "", "waits");
    if (down || active)
      sign(down ? core::SignKind::port_down : core::SignKind::port_active, line, device_);
  }

  bool take_value(std::string_view key, std::string_view value, const Line& line) {
    if (value.empty() && key != "port 1") return false;
    if (key == "state") {
      reach(line);
      // `PORT_DOWN (1)`, `4: ACTIVE`, `Active`.
      if (is_digit(value.front())) value = trim(after(value, ":").value_or(value));
      set_state(first_word(value), line);
      return true;
    }
    if (key == "rate") {
      reach(line);
      if (const auto rate = whole_number(value); rate.has_value()) set_port("rate_gbps", *rate);
      return true;
    }
    if (key == "link_layer" || key == "link layer") {
      reach(line);
      set_port("link_layer", first_word(value));
      return true;
    }
    for (const std::string_view known : {"transport",
                                         "fw_ver",
                                         "node_guid",
                                         "sys_image_guid",
                                         "vendor_id",
                                         "vendor_part_id",
                                         "hw_ver",
                                         "board_id",
                                         "phys_port_cnt",
                                         "port",
                                         "max_mtu",
                                         "active_mtu",
                                         "sm_lid",
                                         "port_lid",
                                         "port_lmc",
                                         "default gid",
                                         "base lid",
                                         "sm lid",
                                         "phys state",
                                         "ca type",
                                         "number of ports",
                                         "firmware version",
                                         "hardware version",
                                         "node guid",
                                         "system image guid",
                                         "physical state",
                                         "lmc",
                                         "capability mask",
                                         "port guid",
                                         "port 1",
                                         "active_width",
                                         "active_speed",
                                         "phys_state"}) {
      if (key != known) continue;
      reach(line);
      return true;
    }
    return false;
  }

  std::string device_;
};

}  // namespace

std::unique_ptr<Parser> ibv_devinfo_parser(Sink& sink) {
  return std::make_unique<IbvDevinfoParser>(sink);
}

}  // namespace nobounce::captures
