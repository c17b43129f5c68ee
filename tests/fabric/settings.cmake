# Calls that planted.cpp stands between, so that a mutant can be planted without a hook in the
# library. A name that no longer fits fails the link, since planted.cpp calls the function behind it.

set(led
  _ZN8nobounce6fabric8SoftHost6createERKNS_7MachineERKNS0_11SoftOptionsE
  _ZN8nobounce6fabric3Bus6createERKNS_7MachineENS0_10BusOptionsE
  _ZN8nobounce8provider21make_storage_providerERNS_4HostERNS_6system12CudaContextsERKNS3_9OpenFilesERKNS0_19CufileConfigurationE
  _ZN8nobounce8provider18make_peer_providerERNS_4HostERNS_6system12CudaContextsERKNS_7MachineE
  _ZN8nobounce8provider18make_host_providerERNS_4HostERNS_6system12CudaContextsE
  _ZN8nobounce8provider20make_staged_providerERNS_4HostEPNS_6system12CudaContextsERKNS3_9OpenFilesERKNS0_13StagedOptionsE
  _ZN8nobounce7session15probe_disprovesERNS0_12SessionStateERKNS0_12TransferPlanERKSt7variantIJNS_9GpuMemoryENS_10HostMemoryENS_9FileRangeENS_10BlockRangeENS_12RemoteMemoryEEESE_b)
foreach(tests fabric_tests fabric_tests_threads)
  if(TARGET ${tests})
    foreach(symbol IN LISTS led)
      target_link_options(${tests} PRIVATE "LINKER:--wrap=${symbol}")
    endforeach()
  endif()
endforeach()
