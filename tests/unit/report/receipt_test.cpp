// Receipts as text and JSON say exactly what the receipt holds.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include <nobounce/receipt_text.hpp>
#include "report/bus_report.hpp"
#include "report/receipt_report.hpp"

namespace nobounce::report {
namespace {

NamedReceipt staged_receipt() {
  NamedReceipt named;
  named.receipt.requested_bytes = 5000;
  named.receipt.bytes[Carriage::staged] = 4096;
  named.receipt.bytes[Carriage::direct] = 904;
  named.receipt.member = Member::storage;
  named.receipt.link = Link::host_bridge;
  named.receipt.elapsed_ns = 2000;
  named.receipt.pinned_bytes = 8192;
  named.receipt.add_cause(Cause::storage_nvidia_fs_absent);
  named.source = "file:/data/a.bin";
  named.target = "gpu:0";
  named.machine = {"live", "live"};
  named.verified = true;
  return named;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::uint64_t number_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  return found == nullptr || found->as_unsigned() == nullptr ? ~0ULL : *found->as_unsigned();
}

std::string text_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  return found == nullptr || found->as_text() == nullptr ? "(absent)" : *found->as_text();
}

TEST(ReceiptText, NamesCarriagesCausesAndTheirRemedies) {
  const std::string text = receipt_text(staged_receipt(), {});
  EXPECT_TRUE(holds(text, "file:/data/a.bin -> gpu:0")) << text;
  EXPECT_TRUE(holds(text, "staged          4,096 B    81.9 %")) << text;
  EXPECT_TRUE(holds(text, "direct            904 B    18.1 %")) << text;
  EXPECT_TRUE(holds(text, "storage.nvidia_fs_absent")) << text;
  EXPECT_TRUE(holds(text, std::string(cause_row(Cause::storage_nvidia_fs_absent).sentence)))
      << text;
  EXPECT_TRUE(holds(text, "2.00 us (2.50 GB/s)")) << text;
  EXPECT_TRUE(holds(text, "8,192 B (8 KiB) of pinned host memory")) << text;
  EXPECT_FALSE(holds(text, "device_bounced")) << text;
  EXPECT_FALSE(holds(text, "\x1b")) << text;
}

TEST(ReceiptText, IsWhatProgramsPrintToo) {
  NamedReceipt named = staged_receipt();
  named.verified.reset();
  ReceiptNames names{named.source, named.target, "live", "live"};
  EXPECT_EQ(to_text(named.receipt, names), receipt_text(named, {}));
  EXPECT_EQ(to_json_text(named.receipt, names), core::dump_json(receipt_json(named)) + "\n");
  names.machine_kind = "soft";
  EXPECT_TRUE(holds(to_text(named.receipt, names), "software machine: live"));
}

TEST(ReceiptText, SaysHowMuchIsMissing) {
  NamedReceipt named = staged_receipt();
  named.receipt.state = TransferState::failed;
  named.receipt.requested_bytes = 10000;
  const std::string text = receipt_text(named, {});
  EXPECT_TRUE(holds(text, "5,000 B (4.9 KiB) of 10,000 B (9.8 KiB) asked for")) << text;
  EXPECT_TRUE(holds(text, "failed")) << text;
}

TEST(ReceiptText, GivesNoTimeOnASoftwareMachine) {
  NamedReceipt named = staged_receipt();
  named.receipt.software_machine = true;
  EXPECT_FALSE(holds(receipt_text(named, {}), "time"));
}

TEST(ReceiptText, ShoutsWhenTheEndsDiffer) {
  NamedReceipt named = staged_receipt();
  named.verified = false;
  EXPECT_TRUE(holds(receipt_text(named, {}), "DIFFER"));
  named.verified.reset();
  EXPECT_TRUE(holds(receipt_text(named, {}), "not checked"));
}

TEST(ReceiptText, OfARefusalIsEmptyOfLinksAndTimes) {
  NamedReceipt named = staged_receipt();
  named.receipt.bytes = {};
  named.receipt.state = TransferState::refused;
  named.verified.reset();
  const std::string text = receipt_text(named, {});
  EXPECT_TRUE(holds(text, "refused")) << text;
  EXPECT_TRUE(holds(text, "0 B of 5,000 B")) << text;
  EXPECT_FALSE(holds(text, "link")) << text;
  EXPECT_FALSE(holds(text, "time ")) << text;
  EXPECT_FALSE(holds(text, "verified")) << text;
}

TEST(ReceiptJson, HasExactlyTheKeysOfItsVersion) {
  const core::Json json = receipt_json(staged_receipt());
  std::set<std::string> keys;
  for (const auto& [key, value] : *json.as_object()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"schema", "member", "source", "target", "state", "policy",
                                         "bytes", "requested_bytes", "link", "issuer", "poster",
                                         "known", "degraded", "causes", "verified", "durable",
                                         "machine", "pinned_bytes", "elapsed_ns"}));
  EXPECT_EQ(json.as_object()->front().first, "schema");
  EXPECT_EQ(text_at(json, "/schema"), "nobounce.receipt/1");
  EXPECT_EQ(number_at(json, "/bytes/staged"), 4096U);
  EXPECT_EQ(number_at(json, "/bytes/direct"), 904U);
  EXPECT_EQ(number_at(json, "/elapsed_ns"), 2000U);
  EXPECT_EQ(text_at(json, "/causes/0"), "storage.nvidia_fs_absent");
  EXPECT_EQ(text_at(json, "/machine/kind"), "live");
}

TEST(ReceiptJson, HasNoTimeOnASoftwareMachineAndNoVerdictWithoutALook) {
  NamedReceipt named = staged_receipt();
  named.receipt.software_machine = true;
  named.verified.reset();
  const core::Json json = receipt_json(named);
  EXPECT_TRUE(json.find("elapsed_ns")->is_null());
  EXPECT_TRUE(json.find("verified")->is_null());
}

TEST(ReceiptJson, PutsSeveralHopsIntoOneDocument) {
  EXPECT_EQ(receipts_json({staged_receipt()}), receipt_json(staged_receipt()));
  const core::Json two = receipts_json({staged_receipt(), staged_receipt()});
  EXPECT_EQ(text_at(two, "/schema"), "nobounce.receipt/1");
  EXPECT_EQ(two.find("receipts")->as_array()->size(), 2U);
  EXPECT_EQ(text_at(two, "/receipts/1/source"), "file:/data/a.bin");
}

TEST(BusText, ComparesReceiptAndBusCarriageByCarriage) {
  BusAccount account;
  account.arrived.emplace();
  (*account.arrived)[Carriage::direct] = 904;
  (*account.arrived)[Carriage::staged] = 4096;
  account.dram_bytes = 8192;
  account.flows.push_back({"DMA of drive:nvme0n1", "drive:nvme0n1", "gpu:0", 904});
  std::string text = bus_text(account, staged_receipt().receipt, {});
  EXPECT_TRUE(holds(text, "equal")) << text;
  EXPECT_FALSE(holds(text, "DIFFERENT")) << text;
  EXPECT_TRUE(holds(text, "904 B  drive:nvme0n1 -> gpu:0, moved by DMA of drive:nvme0n1")) << text;
  EXPECT_TRUE(holds(text, "8,192 B  of host DRAM")) << text;

  (*account.arrived)[Carriage::staged] = 5000;
  (*account.arrived)[Carriage::direct] = 0;
  text = bus_text(account, staged_receipt().receipt, {});
  EXPECT_TRUE(holds(text, "DIFFERENT")) << text;
}

TEST(BusText, SaysWhenNothingArrivedOrTheTargetIsGone) {
  BusAccount account;
  account.arrived.emplace();
  EXPECT_TRUE(holds(bus_text(account, Receipt{}, {}), "nothing arrived"));
  account.arrived.reset();
  EXPECT_TRUE(holds(bus_text(account, Receipt{}, {}), "its bytes are gone"));
  account.not_compared = "they went elsewhere";
  EXPECT_TRUE(holds(bus_text(account, Receipt{}, {}), "not compared: they went elsewhere\n"));
}

}  // namespace
}  // namespace nobounce::report
