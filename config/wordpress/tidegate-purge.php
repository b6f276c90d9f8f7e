<?php
/**
 * Plugin Name: Tidegate purge
 * Description: Empties the page cache when Tidegate says that uploads have changed.
 *
 * Copy it to wp-content/mu-plugins, and write the token of the hook into wp-config.php:
 *     define( 'TIDEGATE_PURGE_TOKEN', '…' );
 */

/** Whether the request shows the token. Without a token of at least 16 characters nothing is admitted. */
function tidegate_purge_is_allowed( $request ) {
	$token = defined( 'TIDEGATE_PURGE_TOKEN' ) ? (string) TIDEGATE_PURGE_TOKEN : '';
	$shown = (string) $request->get_header( 'authorization' );
	return strlen( $token ) >= 16 && hash_equals( 'Bearer ' . $token, $shown );
}

/** Empties the caches of the plugins that are there, and returns their names. */
function tidegate_purge_pages() {
	$purged = array();
	foreach ( array( 'rocket_clean_domain', 'w3tc_flush_all', 'wp_cache_clear_cache' ) as $purge ) {
		if ( function_exists( $purge ) ) {
			$purge();
			$purged[] = $purge;
		}
	}
	if ( has_action( 'litespeed_purge_all' ) ) {
		do_action( 'litespeed_purge_all' );
		$purged[] = 'litespeed_purge_all';
	}
	return array( 'purged' => $purged );
}

add_action(
	'rest_api_init',
	function () {
		register_rest_route(
			'tidegate/v1',
			'/purge',
			array(
				'methods'             => 'POST',
				'callback'            => 'tidegate_purge_pages',
				'permission_callback' => 'tidegate_purge_is_allowed',
			)
		);
	}
);
