//! Functions of PostgreSQL for types and features that are not supported. They are refused by name.

use crate::error::SqlError;
use crate::types::RANGES;

/// Their names, by what they are about.
const FUNCTIONS: [&str; 12] = [
    // Ranges.
    "multirange isempty lower_inc lower_inf upper_inc upper_inf range_merge range_agg \
     range_intersect_agg",
    // XML.
    "xml xmlagg xmlcomment xmlconcat xmlelement xmlexists xmlforest xmlparse xmlpi xmlroot \
     xmlserialize xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document \
     xpath xpath_exists cursor_to_xml database_to_xml query_to_xml schema_to_xml table_to_xml \
     query_to_xmlschema table_to_xmlschema query_to_xml_and_xmlschema \
     table_to_xml_and_xmlschema",
    // Full text search.
    "array_to_tsvector get_current_ts_config json_to_tsvector jsonb_to_tsvector numnode \
     phraseto_tsquery plainto_tsquery querytree setweight strip to_tsquery to_tsvector \
     ts_debug ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank ts_rank_cd \
     ts_rewrite ts_stat ts_token_type tsquery_phrase tsvector_to_array \
     tsvector_update_trigger websearch_to_tsquery",
    // Geometry.
    "area bound_box box center circle diagonal diameter height isclosed ishorizontal isopen \
     isparallel isperp isvertical line lseg npoints path pclose point polygon popen radius \
     slope width",
    // LISTEN and NOTIFY.
    "pg_listening_channels pg_notification_queue_usage pg_notify",
    // Large objects.
    "lo_close lo_creat lo_create lo_export lo_from_bytea lo_get lo_import lo_lseek lo_lseek64 \
     lo_open lo_put lo_tell lo_tell64 lo_truncate lo_truncate64 lo_unlink loread lowrite",
    // Transactions and their numbers.
    "txid_current txid_current_if_assigned txid_current_snapshot txid_snapshot_xip \
     txid_snapshot_xmax txid_snapshot_xmin txid_status txid_visible_in_snapshot \
     pg_current_snapshot pg_current_xact_id pg_current_xact_id_if_assigned pg_snapshot_xip \
     pg_snapshot_xmax pg_snapshot_xmin pg_visible_in_snapshot pg_xact_commit_timestamp \
     pg_xact_commit_timestamp_origin pg_xact_status pg_last_committed_xact \
     pg_get_multixact_members mxid_age",
    // The log, replication, and backups.
    "pg_backup_start pg_backup_stop pg_create_restore_point pg_current_wal_flush_lsn \
     pg_current_wal_insert_lsn pg_current_wal_lsn pg_get_wal_replay_pause_state \
     pg_get_wal_resource_managers pg_is_wal_replay_paused pg_last_wal_receive_lsn \
     pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_promote pg_switch_wal \
     pg_wal_lsn_diff pg_wal_replay_pause pg_wal_replay_resume pg_walfile_name \
     pg_walfile_name_offset pg_copy_logical_replication_slot \
     pg_copy_physical_replication_slot pg_create_logical_replication_slot \
     pg_create_physical_replication_slot pg_drop_replication_slot pg_get_publication_tables \
     pg_get_replication_slots pg_logical_emit_message pg_logical_slot_get_binary_changes \
     pg_logical_slot_get_changes pg_logical_slot_peek_binary_changes \
     pg_logical_slot_peek_changes pg_replication_origin_advance pg_replication_origin_create \
     pg_replication_origin_drop pg_replication_origin_oid pg_replication_origin_progress \
     pg_replication_origin_session_is_setup pg_replication_origin_session_progress \
     pg_replication_origin_session_reset pg_replication_origin_session_setup \
     pg_replication_origin_xact_reset pg_replication_origin_xact_setup \
     pg_replication_slot_advance pg_show_replication_origin_status \
     pg_stat_reset_replication_slot pg_stat_reset_subscription_stats",
    // Files and the state of the server.
    "pg_conf_load_time pg_config pg_control_checkpoint pg_control_init pg_control_recovery \
     pg_control_system pg_current_logfile pg_filenode_relation pg_get_backend_memory_contexts \
     pg_get_shmem_allocations pg_hba_file_rules pg_ident_file_mappings \
     pg_log_backend_memory_contexts pg_ls_archive_statusdir pg_ls_dir pg_ls_logdir \
     pg_ls_logicalmapdir pg_ls_logicalsnapdir pg_ls_replslotdir pg_ls_tmpdir pg_ls_waldir \
     pg_postmaster_start_time pg_read_binary_file pg_read_file pg_relation_filepath \
     pg_reload_conf pg_rotate_logfile pg_rotate_logfile_old pg_show_all_file_settings \
     pg_stat_clear_snapshot pg_stat_file pg_stat_force_next_flush pg_stat_have_stats \
     pg_stat_reset pg_stat_reset_shared pg_stat_reset_single_function_counters \
     pg_stat_reset_single_table_counters pg_stat_reset_slru pg_tablespace_databases \
     inet_server_addr inet_server_port",
    // Objects of the catalog.
    "aclexplode amvalidate has_foreign_data_wrapper_privilege has_function_privilege \
     has_language_privilege has_parameter_privilege has_server_privilege \
     has_tablespace_privilege makeaclitem pg_available_extension_versions \
     pg_collation_actual_version pg_column_compression pg_column_is_updatable \
     pg_database_collation_actual_version pg_event_trigger_ddl_commands \
     pg_event_trigger_dropped_objects pg_event_trigger_table_rewrite_oid \
     pg_event_trigger_table_rewrite_reason pg_extension_config_dump pg_extension_update_paths \
     pg_get_catalog_foreign_keys pg_get_function_arg_default pg_get_keywords \
     pg_get_object_address pg_get_replica_identity_index pg_get_statisticsobjdef \
     pg_get_statisticsobjdef_expressions pg_identify_object pg_identify_object_as_address \
     pg_import_system_collations pg_index_column_has_property pg_index_has_property \
     pg_indexam_has_property pg_indexam_progress_phasename pg_options_to_table \
     pg_partition_root pg_relation_is_updatable pg_safe_snapshot_blocking_pids \
     pg_sequence_last_value pg_sequence_parameters pg_settings_get_flags \
     satisfies_hash_partition to_regcollation to_regoper to_regoperator",
    // Texts.
    "is_normalized normalize to_ascii",
    // Others.
    "setseed",
];

/// The error for a function of PostgreSQL that is not supported.
pub(crate) fn lacking_function(name: &str) -> Option<SqlError> {
    let error = || SqlError::unsupported(format!("the function {name}"));
    let is_one = FUNCTIONS.iter().any(|names| names.split(' ').any(|known| known == name));
    (is_one || RANGES.contains(&name)).then(error)
}
